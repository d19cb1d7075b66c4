"""Alerts of which nothing is open any more, many in one record.

A record is decoded only where a window that it reaches is judged again.
"""

from collections.abc import Collection, Iterable, Iterator

import msgspec
from msgspec import Struct

from tally.alerts.ids import Chain, alert_id
from tally.alerts.message import AlertState, Edge
from tally.alerts.told import ToldAlert
from tally.windows import WINDOW_MILLIS

MOST_ALERTS = 64
# Version, number of the window since 1970, occurrence: all of an id but its chain and its edge.
_AlertName = tuple[int, int, int]


class SettledAlert(Struct, frozen=True, array_like=True):
    """A ToldAlert of a known chain as an array; windows by their numbers since 1970.

    `name`: version, window, occurrence; `of`: those of the raise that it ends; `raised_at`:
    milliseconds since 1970 (UTC). Ids are made anew from them.
    """

    name: _AlertName
    edge: Edge
    state: AlertState
    raised_at: int
    start: int
    ended: int | None
    of: _AlertName | None
    late: bool
    supersedes: bool


class SettledAlerts(Struct, frozen=True):
    """The value of a record: `last`: start of the last window that any of them is of, milliseconds
    since 1970 (UTC)."""

    last: int
    alerts: tuple[SettledAlert, ...]


class SettledPack(Struct, frozen=True, gc=False):
    """A record that stays encoded: of which subject, its number among those of the subject, and
    `last` as above."""

    subject: str
    number: int
    last: int
    value: bytes


class _OnlyLast(Struct):
    last: int


_DECODER = msgspec.json.Decoder(SettledAlerts)
_ONLY_LAST = msgspec.json.Decoder(_OnlyLast)


def last_of(value: bytes) -> int:
    """Start of the last window of a record, milliseconds since 1970 (UTC).

    Raises msgspec.MsgspecError.
    """
    return _ONLY_LAST.decode(value).last


def encoded(alerts: Collection[ToldAlert]) -> bytes:
    """The record of alerts of one chain, among them the raise of each end."""
    names = {alert.alert_id: _name(alert) for alert in alerts}
    settled = tuple(_settled(alert, names) for alert in alerts)
    last = max(alert.window for alert in alerts)
    return msgspec.json.encode(SettledAlerts(last, settled))


def decoded(chain: Chain, value: bytes) -> Iterator[ToldAlert]:
    """The alerts of a record. Raises msgspec.MsgspecError."""
    for alert in _DECODER.decode(value).alerts:
        version, number, occurrence = alert.name
        before = (version, number, occurrence - 1) if alert.supersedes else None
        yield ToldAlert(
            alert_id=_id(chain, alert.name, alert.edge),
            chain=chain,
            version=version,
            edge=alert.edge,
            window=number * WINDOW_MILLIS,
            state=alert.state,
            raised_at=alert.raised_at,
            start=alert.start * WINDOW_MILLIS,
            ended=None if alert.ended is None else alert.ended * WINDOW_MILLIS,
            occurrence=occurrence,
            of=None if alert.of is None else _id(chain, alert.of, "raise"),
            supersedes=None if before is None else _id(chain, before, alert.edge),
            late=alert.late,
        )


def settled_groups(alerts: Iterable[ToldAlert]) -> list[list[ToldAlert]]:
    """Each raise of a chain with its ends, where no generation is waited for any more.

    That is one that was taken back with all its ends, and a confirmed one with a confirmed end.
    """
    groups: dict[str, list[ToldAlert]] = {}
    for alert in sorted(alerts, key=_in_order):
        groups.setdefault(alert.of or alert.alert_id, []).append(alert)
    return [group for raised, group in groups.items() if _is_settled(raised, group)]


def _is_settled(raised: str, group: Collection[ToldAlert]) -> bool:
    states = {alert.edge: alert.state for alert in group if alert.is_standing}
    if raised not in {alert.alert_id for alert in group}:
        # Its raise lies in another record, or was lost: it stays where it is seen.
        return False
    return not states or states == {"raise": "confirmed", "clear": "confirmed"}


def _settled(alert: ToldAlert, names: dict[str, _AlertName]) -> SettledAlert:
    return SettledAlert(
        name=_name(alert),
        edge=alert.edge,
        state=alert.state,
        raised_at=alert.raised_at,
        start=alert.start // WINDOW_MILLIS,
        ended=None if alert.ended is None else alert.ended // WINDOW_MILLIS,
        of=None if alert.of is None else names[alert.of],
        late=alert.late,
        supersedes=alert.supersedes is not None,
    )


def _in_order(alert: ToldAlert) -> tuple[int, int, str]:
    return alert.window, alert.occurrence, alert.alert_id


def _name(alert: ToldAlert) -> _AlertName:
    return alert.version, alert.window // WINDOW_MILLIS, alert.occurrence


def _id(chain: Chain, name: _AlertName, edge: Edge) -> str:
    version, number, occurrence = name
    return alert_id(chain, version, number * WINDOW_MILLIS, edge, occurrence)
