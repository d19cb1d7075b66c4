"""The alerts of a page: those read last from the tables, and the messages received since."""

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from alerting.alert.current_state import current_states
from alerting.queries.alerts import ListedAlert, newest_first, to_listed
from tally.alerts.message import Alert

# Longer than the lag of a working projector ever is. Until then a received message is kept beside
# what the tables say.
MESSAGE_SECONDS = 120.0


class InboxRows(NamedTuple):
    """The open alerts, and the others raised in the period, each newest first."""

    open: list[ListedAlert]
    others: list[ListedAlert]


class Inbox:
    """The last state of each alert; duplicate or reordered messages lead to the same result."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        is_overdue: Callable[[Alert], bool] = lambda _: False,
    ) -> None:
        self._clock, self._is_overdue = clock, is_overdue
        self._alerts_by_id: dict[str, ListedAlert] = {}
        self._messages: list[tuple[float, Alert]] = []

    def load(self, alerts: Iterable[ListedAlert]) -> None:
        """Replace the table rows with the current ones, and forget messages that are too old."""
        self._alerts_by_id = {alert.alert_id: alert for alert in alerts}
        oldest = self._clock() - MESSAGE_SECONDS
        self._messages = [(at, message) for at, message in self._messages if at > oldest]

    def add_message(self, alert: Alert) -> None:
        """Add a message of the stream."""
        self._messages.append((self._clock(), alert))

    @property
    def rows(self) -> InboxRows:
        """The rows to show now."""
        messages = [message for _, message in self._messages]
        last = current_states([*self._alerts_by_id.values(), *messages])
        listed_alerts = (self._to_listed(alert, last) for alert in last.values())
        rows = sorted(listed_alerts, key=newest_first)
        open_alerts = [alert for alert in rows if alert.open]
        return InboxRows(open_alerts, [alert for alert in rows if not alert.open])

    def _to_listed(self, alert: Alert, last: dict[str, Alert]) -> ListedAlert:
        return to_listed(alert, self._is_open(alert, last), self._is_overdue(alert))

    def _is_open(self, alert: Alert, last: dict[str, Alert]) -> bool:
        if alert.edge != "raise" or alert.state == "retracted":
            return False
        # All known messages are searched, because an end may arrive before the tables have its
        # raise.
        ends = [end for end in last.values() if end.of == alert.alert_id]
        if any(end.state != "retracted" for end in ends):
            return False
        known = self._alerts_by_id.get(alert.alert_id)
        # An alert that had ended is open again only if its end was retracted.
        taken_back = any(message.of == alert.alert_id for _, message in self._messages)
        return known is None or known.open or taken_back
