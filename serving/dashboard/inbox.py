"""The alerts of a page: what the tables had last, and what was told since."""

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from serving.alerts.inquiry import ListedAlert, listed, newest_first
from tally.alerts.message import Alert
from tally.alerts.standing import last_states

# Longer than the projector is ever behind while it works: until then what was heard stands beside
# what the tables say.
HEARD_SECONDS = 120.0


class InboxRows(NamedTuple):
    """What is open, and what else was raised in the period, each newest first."""

    open: list[ListedAlert]
    others: list[ListedAlert]


class Inbox:
    """Told twice, in any order, it is the same: of each alert the last state is shown."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        is_overdue: Callable[[Alert], bool] = lambda _: False,
    ) -> None:
        self._clock, self._is_overdue = clock, is_overdue
        self._listed: dict[str, ListedAlert] = {}
        self._heard: list[tuple[float, Alert]] = []

    def load(self, alerts: Iterable[ListedAlert]) -> None:
        """What the tables have now."""
        self._listed = {one.alert_id: one for one in alerts}
        oldest = self._clock() - HEARD_SECONDS
        self._heard = [(at, one) for at, one in self._heard if at > oldest]

    def hear(self, alert: Alert) -> None:
        """A message of the stream."""
        self._heard.append((self._clock(), alert))

    @property
    def rows(self) -> InboxRows:
        """What is shown now."""
        heard = [one for _, one in self._heard]
        last = last_states([*self._listed.values(), *heard])
        every = (self._shown(one, last) for one in last.values())
        rows = sorted(every, key=newest_first)
        is_open = [one for one in rows if one.open]
        return InboxRows(is_open, [one for one in rows if not one.open])

    def _shown(self, alert: Alert, last: dict[str, Alert]) -> ListedAlert:
        return listed(alert, self._is_open(alert, last), self._is_overdue(alert))

    def _is_open(self, alert: Alert, last: dict[str, Alert]) -> bool:
        if alert.edge != "raise" or alert.state == "retracted":
            return False
        # Of all that is known here, for an end may be heard before the tables have its raise.
        ends = [one for one in last.values() if one.of == alert.alert_id]
        if any(one.state != "retracted" for one in ends):
            return False
        known = self._listed.get(alert.alert_id)
        # One that had ended is open again once its end was taken back, and by nothing else.
        taken_back = any(one.of == alert.alert_id for _, one in self._heard)
        return known is None or known.open or taken_back
