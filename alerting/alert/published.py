"""Published alerts: one record per alert, stored in the state topic under its alert_id."""

from msgspec import Struct

from alerting.alert.ids import Chain
from tally.alerts.message import AlertState, Edge


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
    def occurrence_key(self) -> tuple[int, int, Edge]:
        """Version, window start in milliseconds and edge, which all its occurrences share."""
        return self.version, self.window, self.edge

    @property
    def is_unretracted(self) -> bool:
        """Whether it has not been retracted."""
        return self.state != "retracted"


def window_order(alert: PublishedAlert) -> tuple[int, int, str]:
    """The sort key of alerts: window start in milliseconds, then occurrence, then alert_id."""
    return alert.window, alert.occurrence, alert.alert_id
