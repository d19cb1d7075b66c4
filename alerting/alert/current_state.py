"""The current state of an alert from its messages, in any order and with any repetitions.

A message is a fact: each (alert_id, state) is published once, and a later state of an alert is
never followed by an earlier one. So the current state is a function of the set of facts, and the
number of facts orders those sets: the messages of a store come in one order, so a reader with more
messages has all the messages of a reader with fewer.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from tally.alerts.message import Alert, AlertState, EpisodeSpan
from tally.time.instants import parse_instant

# Used as the write timestamp of an alert's row, so a repeat or an older state changes nothing.
STATE_RANKS: dict[AlertState, int] = {"provisional": 1, "confirmed": 2, "retracted": 3}


def state_rank(alert: Alert) -> int:
    """The rank of the alert's state, 1 to 3; later states rank higher."""
    return STATE_RANKS[alert.state]


def episode_ids(alert: Alert) -> tuple[str, ...]:
    """The ids of the alerts that a message concerns: its own, and the raise that it ends."""
    return (alert.alert_id, alert.of) if alert.of is not None else (alert.alert_id,)


def current_states(messages: Iterable[Alert]) -> dict[str, Alert]:
    """The message of each alert's last state, by alert_id."""
    found: dict[str, Alert] = {}
    for alert in messages:
        # The order of arrival does not count, because a replay begins with old messages.
        known = found.get(alert.alert_id)
        if known is None or state_rank(known) < state_rank(alert):
            found[alert.alert_id] = alert
    return found


def is_overdue(alert: Alert, now: datetime, after: timedelta) -> bool:
    """Whether the alert is still provisional `after` so long since its first message.

    `now` in UTC; `alert` is its last message. Raises BadInstant for one without an instant.
    """
    # Time alone decides nothing: an overdue alert stays provisional.
    is_provisional = alert.state == "provisional"
    return is_provisional and parse_instant(alert.raised_at, "raised_at") + after < now


def open_alert(alert_id: str, messages: Iterable[Alert]) -> Alert | None:
    """The last message of an open raise, from all messages of it and of its ends.

    A raise is open while it is not retracted and no end of it stands. None if it is not open, if it
    has no message, or if it is an end itself.
    """
    last = current_states(messages)
    alert = last.get(alert_id)
    if alert is None or alert.edge != "raise" or alert.state == "retracted":
        return None
    return None if _find_end(alert_id, last.values()) else alert


def newest_episode(alert_id: str, messages: Iterable[Alert]) -> EpisodeSpan | None:
    """The span of an alert's episode from all its messages; None if it has none.

    The episode of a raise has ended when an end of it stands; a retracted end ended nothing.
    """
    last = current_states(messages)
    alert = last.get(alert_id)
    if alert is None:
        return None
    # An end has the span of its raise, and is the end of no other raise.
    if alert.edge == "clear":
        return alert.episode
    end = _find_end(alert_id, last.values())
    return EpisodeSpan(alert.episode.start, end.episode.ended if end else None)


def _find_end(alert_id: str, last: Iterable[Alert]) -> Alert | None:
    standing = (alert for alert in last if alert.of == alert_id and alert.state != "retracted")
    return next(standing, None)
