"""Queries for alerts: by store and time, newest first, or one alert by its id."""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, NamedTuple

from msgspec import Meta

from alerting.alert.current_state import (
    current_states,
    is_overdue,
    newest_episode,
    open_alert,
    state_rank,
)
from serving.storage.views import ViewReader
from tally.alerts.message import Alert, EpisodeSpan
from tally.config.settings import Settings
from tally.errors import UnknownName
from tally.time.instants import parse_instant, to_millis
from tally.time.windows import TimeRange

# The most table partitions (one per store and day) that a page reads; at least one day of all
# stores.
MAX_PARTITIONS = 4_000
_ALERT_ID = re.compile(r"[0-9a-f]{64}\Z", re.ASCII)
# An alert raised this many days after its window is no longer listed with the window.
MAX_DAYS_LATE = 35
# The number of days read concurrently: most of them have no alerts.
_CONCURRENT_READS = 16
_DAY, _MILLI = timedelta(days=1), timedelta(milliseconds=1)


# Strict, so that the tests find a field that has no description.
class ListedAlert(Alert, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last state of an alert."""

    open: Annotated[
        bool, Meta(description="a raise that was neither taken back nor ended; never of an end")
    ]
    overdue: Annotated[
        bool, Meta(description="provisional for longer than a generation should take to settle it")
    ]


class AlertPosition(NamedTuple):
    """A place in a list of alerts: just behind the alert with this raise instant and id.

    `raised_millis`: milliseconds since 1970 (UTC).
    """

    raised_millis: int
    alert_id: str


@dataclass(frozen=True)
class AlertFilter:
    """Which alerts are wanted; an empty set, or None, does not restrict them."""

    rules: frozenset[str] = frozenset()
    severities: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()
    edges: frozenset[str] = frozenset()
    is_late: bool | None = None

    def matches(self, alert: Alert) -> bool:
        """Whether the alert is wanted."""
        pairs = (
            (self.rules, alert.rule_id),
            (self.severities, alert.severity),
            (self.states, alert.state),
            (self.edges, alert.edge),
        )
        is_named = all(not named or value in named for named, value in pairs)
        return is_named and self.is_late in (None, alert.late)


@dataclass(frozen=True)
class AlertSearch:
    """A question for the alerts of some stores.

    `span`: None for any time, which asks for open alerts only. `is_open`: None for both open and
    closed alerts.
    """

    store_ids: Sequence[str]
    alert_filter: AlertFilter
    span: TimeRange | None = None
    is_open: bool | None = None

    def matches(self, alert: Alert) -> bool:
        """Whether the alert matches the question, open or not."""
        is_then = self.span is None or _lies_in(alert, self.span)
        return is_then and self.alert_filter.matches(alert)


class AlertPage(NamedTuple):
    """Some alerts, newest first, and where the next page begins; None: there are no more."""

    alerts: list[ListedAlert]
    next_cursor: AlertPosition | None


class AlertLife(NamedTuple):
    """All messages of one alert: its states in their order, and those of its ends."""

    last: ListedAlert
    episode: EpisodeSpan
    states: list[Alert]
    ends: list[Alert]


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class AlertQueryService:
    """Alerts as the tables have them. Every method raises ViewsUnreachable."""

    views: ViewReader
    overdue_after: timedelta
    # The age of an alert needs a clock: no tick reports it to the caller.
    now: Callable[[], datetime] = _utc_now

    @classmethod
    def from_settings(cls, settings: Settings, views: ViewReader) -> "AlertQueryService":
        """Build the service from the settings."""
        return cls(views, timedelta(seconds=settings.batch_overdue_seconds))

    def to_listed(self, alert: Alert, is_open: bool) -> ListedAlert:
        """The message as an entry of the list, marked as overdue if it is by now."""
        return to_listed(alert, is_open, self.is_overdue(alert))

    def is_overdue(self, alert: Alert) -> bool:
        """Whether the alert has, by its last message, been provisional for too long by now."""
        return is_overdue(alert, self.now(), self.overdue_after)

    async def read_page(
        self, question: AlertSearch, after: AlertPosition | None, limit: int
    ) -> AlertPage:
        """The alerts behind the place, at most `limit`, newest first.

        The page has fewer, even none, where many days of many stores have few alerts; its place
        continues from there.
        """
        if question.span is None or question.is_open:
            # There are never many open alerts, however old they are: all of them are read.
            left = [
                alert for alert in await self.read_open(question) if _is_after_cursor(alert, after)
            ]
            more = alert_cursor(left[limit - 1]) if len(left) > limit else None
            return AlertPage(left[:limit], more)
        # Only the stores of this page are read: the state of other alerts is not needed.
        raised, end = await self._read_raises(question, question.span, after, limit)
        stores = sorted({alert.store_id for alert in raised if alert.edge == "raise"})
        open_alerts = await self.views.alerts.read_open(stores) if stores else []
        is_open = {alert.alert_id for alert in open_alerts}
        found = (self.to_listed(alert, alert.alert_id in is_open) for alert in raised)
        # The next page also starts behind the alerts that are filtered out here.
        shown = [alert for alert in found if question.is_open is None or not alert.open]
        return AlertPage(shown, end)

    async def read_open(self, question: AlertSearch) -> list[ListedAlert]:
        """All open alerts that match the question, newest first."""
        found = await self.views.alerts.read_open(question.store_ids)
        matching = sorted(filter(question.matches, found), key=newest_first)
        return [self.to_listed(alert, True) for alert in matching]

    async def _read_raises(
        self, question: AlertSearch, span: TimeRange, after: AlertPosition | None, limit: int
    ) -> tuple[list[Alert], AlertPosition | None]:
        """At most `limit` alerts, and the place behind which there may be more."""
        # The number of partitions bounds a page, not its rows: most days of most stores have none.
        found: list[Alert] = []
        days_left = max(1, MAX_PARTITIONS // max(1, len(question.store_ids)))
        day = min(span.end - _MILLI, _cursor_instant(after) if after else span.end).date()
        while day >= span.start.date() and days_left and len(found) <= limit:
            alerts = await self.views.alerts.read_raised(question.store_ids, day)
            matching = (
                alert
                for alert in alerts
                if question.matches(alert) and _is_after_cursor(alert, after)
            )
            # The days are read newest first, so that all alerts together are in order.
            found += sorted(matching, key=newest_first)
            day, days_left = day - _DAY, days_left - 1
        # An alert beyond the limit was read, so there is a next page.
        if len(found) > limit:
            return found[:limit], alert_cursor(found[limit - 1])
        return found, _cursor_before(day + _DAY) if day >= span.start.date() else None

    async def read_windows(
        self, store_id: str, span: TimeRange, now: datetime, days_late: int | None = MAX_DAYS_LATE
    ) -> list[ListedAlert]:
        """The alerts of one store whose window begins in the span, newest first.

        `days_late`: alerts raised more than so many days after the span are absent; None: none is.
        `now`: UTC.
        """
        # Nothing is raised before its window has begun, and nothing after now.
        latest = max(now, span.end).date()
        if days_late is not None:
            latest = min(latest, (span.end + days_late * _DAY).date())
        count = max(0, (latest - span.start.date()).days + 1)
        days = [span.start.date() + number * _DAY for number in range(count)]
        found: list[Alert] = []
        for begin in range(0, len(days), _CONCURRENT_READS):
            chunk = days[begin : begin + _CONCURRENT_READS]
            raised = (self.views.alerts.read_raised([store_id], day) for day in chunk)
            found += [alert for alerts in await asyncio.gather(*raised) for alert in alerts]
        of_span = [alert for alert in found if span.start <= window_start(alert) < span.end]
        open_alerts = await self.views.alerts.read_open([store_id]) if of_span else []
        is_open = {alert.alert_id for alert in open_alerts}
        shown = sorted(of_span, key=newest_first)
        return [to_listed(alert, alert.alert_id in is_open) for alert in shown]

    async def read_life(self, alert_id: str) -> AlertLife:
        """All messages of one alert. Raises UnknownName for an unknown id."""
        # A text that cannot be an id is not looked up.
        messages = await self.views.alerts.read_life(alert_id) if _ALERT_ID.match(alert_id) else []
        last, episode = current_states(messages).get(alert_id), newest_episode(alert_id, messages)
        if last is None or episode is None:
            raise UnknownName(
                "alert_id", f"there is no alert {alert_id[:64]!r}; GET /v1/alerts lists them"
            )
        shown = sorted(_drop_erased(messages), key=_life_order)
        states = [alert for alert in shown if alert.alert_id == alert_id]
        ends = [alert for alert in shown if alert.of == alert_id]
        is_open = open_alert(alert_id, messages) is not None
        return AlertLife(self.to_listed(last, is_open), episode, states, ends)


def alert_cursor(alert: Alert) -> AlertPosition:
    """The place behind an alert."""
    return AlertPosition(to_millis(raise_instant(alert)), alert.alert_id)


def raise_instant(alert: Alert) -> datetime:
    """The instant when the alert was raised, UTC."""
    return parse_instant(alert.raised_at, "raised_at")


def window_start(alert: Alert) -> datetime:
    """The start of the window that the alert was first sent for, UTC."""
    return parse_instant(alert.window.start, "window")


def to_listed(alert: Alert, is_open: bool, is_overdue: bool = False) -> ListedAlert:
    """The message as an entry of a list."""
    fields = {name: getattr(alert, name) for name in Alert.__struct_fields__}
    return ListedAlert(**fields, open=is_open, overdue=is_overdue)


def newest_first(alert: Alert) -> tuple[int, str]:
    """The sort key of a list: the negated raise instant in milliseconds, then the id."""
    place = alert_cursor(alert)
    return -place.raised_millis, place.alert_id


def _life_order(alert: Alert) -> tuple[int, str, int]:
    return *newest_first(alert), state_rank(alert)


def _drop_erased(messages: Sequence[Alert]) -> Iterator[Alert]:
    """The messages that may be shown: after an erasure, only the last one of the alert."""
    last = current_states(messages)
    for message in messages:
        newest = last[message.alert_id]
        if newest.reason != "erasure" or message.state == newest.state:
            yield message


def _is_after_cursor(alert: Alert, place: AlertPosition | None) -> bool:
    return place is None or newest_first(alert) > (-place.raised_millis, place.alert_id)


def _lies_in(alert: Alert, span: TimeRange) -> bool:
    return span.start <= raise_instant(alert) < span.end


def _cursor_before(day: date) -> AlertPosition:
    """The place behind all alerts of a day and ahead of all alerts of the day before it."""
    # Raise instants are whole milliseconds, so there is no alert between the two places.
    midnight = datetime.combine(day, time(), UTC)
    return AlertPosition(to_millis(midnight) - 1, "")


def _cursor_instant(place: AlertPosition) -> datetime:
    return datetime.fromtimestamp(place.raised_millis / 1000, UTC)
