"""The alerts that were told, asked by store and time, newest first, or one by its id."""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, NamedTuple

from msgspec import Meta

from serving.merge.views import ViewReader
from tally.alerts.message import Alert, EpisodeSpan
from tally.alerts.standing import is_overdue, last_states, newest_episode, open_alert, rank_of
from tally.errors import UnknownName
from tally.instants import parse_instant
from tally.settings import Settings

# Partitions that one page reads, a store and day each; at least one day of all stores.
MOST_PARTITIONS = 4_000
_ALERT_ID = re.compile(r"[0-9a-f]{64}\Z", re.ASCII)
# An alert of a window that changed that long after it is no more looked for beside the window.
MOST_DAYS_LATE = 35
# Days that are asked for at once: of most of them the answer is empty.
_AT_ONCE = 16
_DAY, _MILLI = timedelta(days=1), timedelta(milliseconds=1)


# Strict, so that a field which nobody has described is found by the tests.
class ListedAlert(Alert, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last state of an alert."""

    open: Annotated[
        bool, Meta(description="a raise that was neither taken back nor ended; never of an end")
    ]
    overdue: Annotated[
        bool, Meta(description="provisional for longer than a generation should take to settle it")
    ]


class AlertPlace(NamedTuple):
    """Between two alerts of a list: behind one, by the instant when it was raised and its id.

    Milliseconds since 1970 (UTC).
    """

    raised_millis: int
    alert_id: str


class AlertSpan(NamedTuple):
    """When alerts were raised, [start, end) in UTC."""

    start: datetime
    end: datetime


@dataclass(frozen=True)
class AlertFilter:
    """Which alerts are wanted; an empty one of texts, or None, wants all."""

    rules: frozenset[str] = frozenset()
    severities: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()
    edges: frozenset[str] = frozenset()
    is_late: bool | None = None

    def passes(self, alert: Alert) -> bool:
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
class AlertQuestion:
    """Which alerts of which stores.

    `span`: None for whenever, of those that are open alone. `is_open`: None for both.
    """

    store_ids: Sequence[str]
    wanted: AlertFilter
    span: AlertSpan | None = None
    is_open: bool | None = None

    def asks_for(self, alert: Alert) -> bool:
        """Whether the alert is asked for, open or not."""
        is_then = self.span is None or _lies_in(alert, self.span)
        return is_then and self.wanted.passes(alert)


class AlertPage(NamedTuple):
    """Some alerts, newest first, and where the next page begins; None: there are no more."""

    alerts: list[ListedAlert]
    end: AlertPlace | None


class AlertLife(NamedTuple):
    """All that was told of one alert, its states in their order, and of its ends."""

    last: ListedAlert
    episode: EpisodeSpan
    states: list[Alert]
    ends: list[Alert]


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class AlertInquiry:
    """Alerts as the tables have them. Every method raises ViewsUnreachable."""

    views: ViewReader
    overdue_after: timedelta
    # An alert gets old by itself: no tick says so to who asks.
    now: Callable[[], datetime] = _utc_now

    @classmethod
    def of(cls, settings: Settings, views: ViewReader) -> "AlertInquiry":
        """By the settings."""
        return cls(views, timedelta(seconds=settings.batch_overdue_seconds))

    def listed(self, alert: Alert, is_open: bool) -> ListedAlert:
        """The message as the list has it."""
        return listed(alert, is_open, self.is_overdue(alert))

    def is_overdue(self, alert: Alert) -> bool:
        """Whether the alert, by its last message, has been provisional for too long by now."""
        return is_overdue(alert, self.now(), self.overdue_after)

    async def page(
        self, question: AlertQuestion, after: AlertPlace | None, limit: int
    ) -> AlertPage:
        """The alerts behind the place, at most `limit`, newest first.

        Fewer, even none, where many days of many stores have few: the place goes on from there.
        """
        if question.span is None or question.is_open:
            # What is open is never much, however long ago it was raised: it is read whole.
            left = [one for one in await self.open(question) if _is_behind(one, after)]
            more = place_of_alert(left[limit - 1]) if len(left) > limit else None
            return AlertPage(left[:limit], more)
        # Of the page alone: whether the others are open nobody has asked.
        raised, end = await self._raised(question, question.span, after, limit)
        stores = sorted({one.store_id for one in raised if one.edge == "raise"})
        still = await self.views.alerts.open(stores) if stores else []
        is_open = {one.alert_id for one in still}
        found = (self.listed(one, one.alert_id in is_open) for one in raised)
        # The place goes on behind what was left out too.
        kept = [one for one in found if question.is_open is None or not one.open]
        return AlertPage(kept, end)

    async def open(self, question: AlertQuestion) -> list[ListedAlert]:
        """Every one that is open, newest first."""
        found = await self.views.alerts.open(question.store_ids)
        asked = sorted(filter(question.asks_for, found), key=newest_first)
        return [self.listed(one, True) for one in asked]

    async def _raised(
        self, question: AlertQuestion, span: AlertSpan, after: AlertPlace | None, limit: int
    ) -> tuple[list[Alert], AlertPlace | None]:
        """At most `limit` alerts, and behind which one there may be more."""
        # By the cost of a page and not by its rows: most days of most stores have none.
        found: list[Alert] = []
        days_left = max(1, MOST_PARTITIONS // max(1, len(question.store_ids)))
        day = min(span.end - _MILLI, _instant_of(after) if after else span.end).date()
        while day >= span.start.date() and days_left and len(found) <= limit:
            alerts = await self.views.alerts.raised(question.store_ids, day)
            asked = (one for one in alerts if question.asks_for(one) and _is_behind(one, after))
            # Days come newest first, so that all of them together are in order.
            found += sorted(asked, key=newest_first)
            day, days_left = day - _DAY, days_left - 1
        # One more than a page has is known to be there.
        if len(found) > limit:
            return found[:limit], place_of_alert(found[limit - 1])
        return found, _before(day + _DAY) if day >= span.start.date() else None

    async def of_windows(self, store_id: str, span: AlertSpan, now: datetime) -> list[ListedAlert]:
        """Those of one store whose window begins in the span, whenever they were raised.

        Newest first; but of what was raised MOST_DAYS_LATE days behind the span none. `now`: UTC.
        """
        # Nothing is raised before its window has begun, and nothing after now.
        latest = min(span.end + MOST_DAYS_LATE * _DAY, max(now, span.end)).date()
        count = max(0, (latest - span.start.date()).days + 1)
        days = [span.start.date() + more * _DAY for more in range(count)]
        found: list[Alert] = []
        for begin in range(0, len(days), _AT_ONCE):
            some = days[begin : begin + _AT_ONCE]
            raised = (self.views.alerts.raised([store_id], day) for day in some)
            found += [one for alerts in await asyncio.gather(*raised) for one in alerts]
        of_span = [one for one in found if span.start <= window_start(one) < span.end]
        still = await self.views.alerts.open([store_id]) if of_span else []
        is_open = {one.alert_id for one in still}
        shown = sorted(of_span, key=newest_first)
        return [listed(one, one.alert_id in is_open) for one in shown]

    async def life(self, alert_id: str) -> AlertLife:
        """Raises UnknownName for an id that nobody knows."""
        # What could never be an id is asked of nobody.
        told = await self.views.alerts.life(alert_id) if _ALERT_ID.match(alert_id) else []
        last, episode = last_states(told).get(alert_id), newest_episode(alert_id, told)
        if last is None or episode is None:
            raise UnknownName(
                "alert_id", f"there is no alert {alert_id[:64]!r}; GET /v1/alerts lists them"
            )
        shown = sorted(_not_erased(told), key=_told_order)
        states = [one for one in shown if one.alert_id == alert_id]
        ends = [one for one in shown if one.of == alert_id]
        is_open = open_alert(alert_id, told) is not None
        return AlertLife(self.listed(last, is_open), episode, states, ends)


def place_of_alert(alert: Alert) -> AlertPlace:
    """The place behind an alert."""
    return AlertPlace(_millis(raised_at(alert)), alert.alert_id)


def raised_at(alert: Alert) -> datetime:
    """When it was raised, UTC."""
    return parse_instant(alert.raised_at, "raised_at")


def window_start(alert: Alert) -> datetime:
    """Start of the window that it was first told of, UTC."""
    return parse_instant(alert.window.start, "window")


def listed(alert: Alert, is_open: bool, is_overdue: bool = False) -> ListedAlert:
    """The message as a list has it."""
    fields = {name: getattr(alert, name) for name in Alert.__struct_fields__}
    return ListedAlert(**fields, open=is_open, overdue=is_overdue)


def newest_first(alert: Alert) -> tuple[int, str]:
    """By what a list is sorted: when it was raised, in milliseconds back, then its id."""
    place = place_of_alert(alert)
    return -place.raised_millis, place.alert_id


def _told_order(alert: Alert) -> tuple[int, str, int]:
    return *newest_first(alert), rank_of(alert)


def _not_erased(told: Sequence[Alert]) -> Iterator[Alert]:
    """What may be shown: of what an erasure has taken back the last message alone."""
    last = last_states(told)
    for one in told:
        of = last[one.alert_id]
        if of.reason != "erasure" or one.state == of.state:
            yield one


def _is_behind(alert: Alert, place: AlertPlace | None) -> bool:
    return place is None or newest_first(alert) > (-place.raised_millis, place.alert_id)


def _lies_in(alert: Alert, span: AlertSpan) -> bool:
    return span.start <= raised_at(alert) < span.end


def _before(day: date) -> AlertPlace:
    """Behind everything of a day, ahead of everything of the day before it."""
    # No alert has an instant between two milliseconds.
    midnight = datetime.combine(day, time(), UTC)
    return AlertPlace(_millis(midnight) - 1, "")


def _instant_of(place: AlertPlace) -> datetime:
    return datetime.fromtimestamp(place.raised_millis / 1000, UTC)


def _millis(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)
