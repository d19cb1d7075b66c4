"""Published alerts: one record per alert in the state topic, and packs of settled ones.

A raise is settled with its ends when all of them are retracted, or it and its end are confirmed:
they wait for no generation any more. Many settled alerts are one record, which is decoded only when
a window that it reaches is evaluated again.
"""

from collections.abc import Collection, Iterable, Iterator

import msgspec
from msgspec import Struct

from alerting.alert.ids import Chain, alert_id
from tally.alerts.message import AlertState, Edge
from tally.time.windows import WINDOW_MILLIS


class PublishedAlert(Struct, frozen=True, kw_only=True):
    """An alert as last published; all instants are milliseconds since 1970 (UTC).

    `window`: start of the window for which it was first published, which never moves. `of`:
    alert_id of the raise that a clear ends; `supersedes`: alert_id of the previous occurrence.
    `late` and `raised_at` are those of its first message. `start` and `ended`: those of its episode
    in its last message.
    """

    # All parts of the id are stored too, so that a later state can be published under the same id.
    alert_id: str
    chain: Chain
    version: int
    edge: Edge
    window: int
    state: AlertState
    raised_at: int
    start: int
    ended: int | None = None
    occurrence: int = 1
    of: str | None = None
    supersedes: str | None = None
    late: bool = False

    @property
    def is_unretracted(self) -> bool:
        """Whether it has not been retracted."""
        return self.state != "retracted"


def window_order(alert: PublishedAlert) -> tuple[int, int, str]:
    """The sort key of alerts: window start in milliseconds, then occurrence, then alert_id."""
    return alert.window, alert.occurrence, alert.alert_id


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
    """The value of a record; `last`: start of its last window, ms since 1970 (UTC)."""

    last: int
    alerts: tuple[SettledAlert, ...]


class SettledPack(Struct, frozen=True, gc=False):
    """A record that stays encoded, by subject and number in it; `last`: as in SettledAlerts."""

    subject: str
    number: int
    last: int
    value: bytes


class _LastWindow(Struct):
    last: int


_DECODER = msgspec.json.Decoder(SettledAlerts)
_LAST_DECODER = msgspec.json.Decoder(_LastWindow)


def decode_last_window(value: bytes) -> int:
    """The start of a record's last window, ms since 1970 (UTC). Raises msgspec.MsgspecError."""
    return _LAST_DECODER.decode(value).last


def encode_alerts(alerts: Collection[PublishedAlert]) -> bytes:
    """The record for alerts of one chain, which must include the raise of each end."""
    names = {
        alert.alert_id: (alert.version, alert.window // WINDOW_MILLIS, alert.occurrence)
        for alert in alerts
    }
    settled = tuple(
        SettledAlert(
            name=names[alert.alert_id],
            edge=alert.edge,
            state=alert.state,
            raised_at=alert.raised_at,
            start=alert.start // WINDOW_MILLIS,
            ended=None if alert.ended is None else alert.ended // WINDOW_MILLIS,
            raise_name=None if alert.of is None else names[alert.of],
            late=alert.late,
            supersedes=alert.supersedes is not None,
        )
        for alert in alerts
    )
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
    """Each raise of a chain with its ends, if they are settled."""
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


def _build_id(chain: Chain, name: _AlertName, edge: Edge) -> str:
    version, number, occurrence = name
    return alert_id(chain, version, number * WINDOW_MILLIS, edge, occurrence)
