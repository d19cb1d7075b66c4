"""Packing of settled alerts: many alerts in one record.

A raise is settled with its ends when all of them are retracted, or it and its end are confirmed:
nothing of it is open any more. A record is decoded only when a window that it reaches is evaluated
again.
"""

from collections.abc import Collection, Iterable, Iterator

import msgspec
from msgspec import Struct

from alerting.alert.ids import Chain, alert_id
from alerting.alert.published import PublishedAlert, window_order
from tally.alerts.message import AlertState, Edge
from tally.time.windows import WINDOW_MILLIS

MAX_ALERTS = 64
# Version, number of the window since 1970, occurrence: the parts of an id except chain and edge.
_AlertName = tuple[int, int, int]


class SettledAlert(Struct, frozen=True, array_like=True):
    """A PublishedAlert of a known chain as an array; windows are numbered since 1970.

    `name`: version, window, occurrence; `raise_name`: those of the raise that it ends; `raised_at`:
    milliseconds since 1970 (UTC). Ids are computed again from these fields.
    """

    name: _AlertName
    edge: Edge
    state: AlertState
    raised_at: int
    start: int
    ended: int | None
    raise_name: _AlertName | None
    late: bool
    supersedes: bool


class SettledAlerts(Struct, frozen=True):
    """The value of a record.

    `last`: start of the last window of any of the alerts, milliseconds since 1970 (UTC).
    """

    last: int
    alerts: tuple[SettledAlert, ...]


class SettledPack(Struct, frozen=True, gc=False):
    """A record that stays encoded: its subject, its number within the subject, and `last`.

    `last`: as in SettledAlerts.
    """

    subject: str
    number: int
    last: int
    value: bytes


class _LastWindow(Struct):
    last: int


_DECODER = msgspec.json.Decoder(SettledAlerts)
_LAST_DECODER = msgspec.json.Decoder(_LastWindow)


def decode_last_window(value: bytes) -> int:
    """The start of the last window of a record, milliseconds since 1970 (UTC).

    Raises msgspec.MsgspecError.
    """
    return _LAST_DECODER.decode(value).last


def encode_alerts(alerts: Collection[PublishedAlert]) -> bytes:
    """The record for alerts of one chain, which must include the raise of each end."""
    names = {alert.alert_id: _alert_name(alert) for alert in alerts}
    settled = tuple(_pack_alert(alert, names) for alert in alerts)
    last = max(alert.window for alert in alerts)
    return msgspec.json.encode(SettledAlerts(last, settled))


def decode_alerts(chain: Chain, value: bytes) -> Iterator[PublishedAlert]:
    """The alerts of a record. Raises msgspec.MsgspecError."""
    for alert in _DECODER.decode(value).alerts:
        version, number, occurrence = alert.name
        before = (version, number, occurrence - 1) if alert.supersedes else None
        yield PublishedAlert(
            alert_id=_build_id(chain, alert.name, alert.edge),
            chain=chain,
            version=version,
            edge=alert.edge,
            window=number * WINDOW_MILLIS,
            state=alert.state,
            raised_at=alert.raised_at,
            start=alert.start * WINDOW_MILLIS,
            ended=None if alert.ended is None else alert.ended * WINDOW_MILLIS,
            occurrence=occurrence,
            of=None if alert.raise_name is None else _build_id(chain, alert.raise_name, "raise"),
            supersedes=None if before is None else _build_id(chain, before, alert.edge),
            late=alert.late,
        )


def group_settled(alerts: Iterable[PublishedAlert]) -> list[list[PublishedAlert]]:
    """Each raise of a chain with its ends, as far as they wait for no generation any more.

    These are raises that were retracted with all their ends, and confirmed raises with a confirmed
    end.
    """
    groups: dict[str, list[PublishedAlert]] = {}
    for alert in sorted(alerts, key=window_order):
        groups.setdefault(alert.of or alert.alert_id, []).append(alert)
    return [group for raised, group in groups.items() if _is_settled(raised, group)]


def _is_settled(raised: str, group: Collection[PublishedAlert]) -> bool:
    states = {alert.edge: alert.state for alert in group if alert.is_unretracted}
    if raised not in {alert.alert_id for alert in group}:
        # The raise is in another record, or was lost; the end stays where it is visible.
        return False
    return not states or states == {"raise": "confirmed", "clear": "confirmed"}


def _pack_alert(alert: PublishedAlert, names: dict[str, _AlertName]) -> SettledAlert:
    return SettledAlert(
        name=_alert_name(alert),
        edge=alert.edge,
        state=alert.state,
        raised_at=alert.raised_at,
        start=alert.start // WINDOW_MILLIS,
        ended=None if alert.ended is None else alert.ended // WINDOW_MILLIS,
        raise_name=None if alert.of is None else names[alert.of],
        late=alert.late,
        supersedes=alert.supersedes is not None,
    )


def _alert_name(alert: PublishedAlert) -> _AlertName:
    return alert.version, alert.window // WINDOW_MILLIS, alert.occurrence


def _build_id(chain: Chain, name: _AlertName, edge: Edge) -> str:
    version, number, occurrence = name
    return alert_id(chain, version, number * WINDOW_MILLIS, edge, occurrence)
