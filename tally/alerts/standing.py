"""Where an alert stands by all that was told of it, in whatever order it is heard, and how often.

A message is a fact: each (alert_id, state) is told once, and of the facts of one alert a later
state is never followed by an earlier one. So what holds is a function of the set of facts, and the
number of facts orders those sets: messages of a store come in one order, and whoever has heard
more has heard all that the other one has.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from tally.alerts.message import Alert, AlertState, EpisodeSpan
from tally.instants import parse_instant

# The write timestamp of an alert's row: a repeat or an older state changes nothing there.
RANKS: dict[AlertState, int] = {"provisional": 1, "confirmed": 2, "retracted": 3}


def rank_of(alert: Alert) -> int:
    """How far the alert is on its way, 1 to 3."""
    return RANKS[alert.state]


def life_ids(alert: Alert) -> tuple[str, ...]:
    """The alerts whose life a message belongs to: its own, and that of the raise that it ends."""
    return (alert.alert_id, alert.of) if alert.of is not None else (alert.alert_id,)


def last_states(told: Iterable[Alert]) -> dict[str, Alert]:
    """By alert_id the message of the last state."""
    found: dict[str, Alert] = {}
    for one in told:
        # Never by the order in which they are heard: a replay begins with old ones.
        known = found.get(one.alert_id)
        if known is None or rank_of(known) < rank_of(one):
            found[one.alert_id] = one
    return found


def is_overdue(alert: Alert, now: datetime, after: timedelta) -> bool:
    """Whether no generation has settled the alert in the time `after` since its first message.

    `now` in UTC; `alert` is its last message. Raises BadInstant for one without an instant.
    """
    # Time alone settles nothing: what is overdue stays provisional.
    is_settled = alert.state != "provisional"
    return not is_settled and parse_instant(alert.raised_at, "raised_at") + after < now


def open_alert(alert_id: str, told: Iterable[Alert]) -> Alert | None:
    """The last message of a raise that is open, by all that was told of it and of its ends.

    It is open while neither it is retracted nor an end of it stands. None: it is not, or nothing
    was told of it, or it is an end itself.
    """
    last = last_states(told)
    own = last.get(alert_id)
    if own is None or own.edge != "raise" or own.state == "retracted":
        return None
    return None if _standing_end(alert_id, last.values()) else own


def newest_episode(alert_id: str, told: Iterable[Alert]) -> EpisodeSpan | None:
    """The span of an alert's episode as all that was told has it; None when nothing was.

    Of a raise whose end stands it has ended; an end that was taken back ended nothing.
    """
    last = last_states(told)
    own = last.get(alert_id)
    if own is None:
        return None
    # An end has its span from its raise, and is the end of no other.
    if own.edge == "clear":
        return own.episode
    end = _standing_end(alert_id, last.values())
    return EpisodeSpan(own.episode.start, end.episode.ended if end else None)


def _standing_end(alert_id: str, last: Iterable[Alert]) -> Alert | None:
    standing = (one for one in last if one.of == alert_id and one.state != "retracted")
    return next(standing, None)
