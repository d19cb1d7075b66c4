"""What subscribers have been told: a record an alert, kept in the state topic by its alert_id."""

from msgspec import Struct

from tally.alerts.ids import Chain
from tally.alerts.message import AlertState, Edge


class ToldAlert(Struct, frozen=True, kw_only=True):
    """An alert as it was told last; all instants are milliseconds since 1970 (UTC).

    `window`: start of the one of which it was first told, which never moves. `of`: alert_id of the
    raise that a clear ends; `supersedes`: alert_id of the occurrence before. `late` and `raised_at`
    are those of its first message. `start` and `ended`: of its episode, as its last message has it.
    """

    # All that its id is made of is beside it: what was told can be told again by another state.
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
    def place(self) -> tuple[int, int, Edge]:
        """Version, start of the window in milliseconds and edge: what its occurrences share."""
        return self.version, self.window, self.edge

    @property
    def is_standing(self) -> bool:
        """Whether it has not been taken back."""
        return self.state != "retracted"
