"""Queries for alerts, by store and time or by id; and what people do with one of them."""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Annotated, NamedTuple, TypeAlias

from confluent_kafka import KafkaException
from msgspec import Meta

from alerting.alert.current_state import (
    current_states,
    is_overdue,
    newest_episode,
    open_alert,
    state_rank,
)
from alerting.alert.resolution import AlertResolution, require_open, write_resolution
from alerting.deliver.state.controls import Acknowledgement, Snooze, write_controls
from serving.storage.views import ViewReader
from tally.alerts.message import Alert, EpisodeSpan
from tally.config.settings import Settings
from tally.errors import Busy, EditsRefused, SendFailed, StackError, UnknownName, ViewsUnreachable
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
_utc_now = partial(datetime.now, UTC)
ActionRecord: TypeAlias = Acknowledgement | Snooze | AlertResolution
# Returns once the brokers have acknowledged the record. Raises SendFailed.
ActionWriter: TypeAlias = Callable[[ActionRecord], None]
# Without brokers a write takes half a minute; further ones are refused instead of piling up.
MAX_WAITING = 16


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
    """A place in a list of alerts: behind the one of this instant (ms since 1970, UTC) and id."""

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
        wanted = (self.rules, self.severities, self.states, self.edges)
        values = (alert.rule_id, alert.severity, alert.state, alert.edge)
        pairs = zip(wanted, values, strict=True)
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
        span = self.span
        is_then = span is None or span.start <= raise_instant(alert) < span.end
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
            open_alerts = await self.read_open(question)
            left = [alert for alert in open_alerts if _is_after_cursor(alert, after)]
            more = alert_cursor(left[limit - 1]) if len(left) > limit else None
            return AlertPage(left[:limit], more)
        # Only the stores of this page are read: the state of other alerts is not needed.
        raised, end = await self._read_raises(question, question.span, after, limit)
        stores = sorted({alert.store_id for alert in raised if alert.edge == "raise"})
        is_open = await self._read_open_ids(stores)
        found = (self.to_listed(alert, alert.alert_id in is_open) for alert in raised)
        # The next page also starts behind the alerts that are filtered out here.
        shown = [alert for alert in found if question.is_open is None or not alert.open]
        return AlertPage(shown, end)

    async def read_open(self, question: AlertSearch) -> list[ListedAlert]:
        """All open alerts that match the question, newest first."""
        found = await self.views.alerts.read_open(question.store_ids)
        matching = sorted(filter(question.matches, found), key=newest_first)
        return [self.to_listed(alert, True) for alert in matching]

    async def _read_open_ids(self, store_ids: Sequence[str]) -> set[str]:
        found = await self.views.alerts.read_open(store_ids) if store_ids else []
        return {alert.alert_id for alert in found}

    async def _read_raises(
        self, question: AlertSearch, span: TimeRange, after: AlertPosition | None, limit: int
    ) -> tuple[list[Alert], AlertPosition | None]:
        """At most `limit` alerts, and the place behind which there may be more."""
        await self.views.refuse_lost_history(span.start, "alerts")
        # The number of partitions bounds a page, not its rows: most days of most stores have none.
        found: list[Alert] = []
        days_left = max(1, MAX_PARTITIONS // max(1, len(question.store_ids)))
        begin = datetime.fromtimestamp(after.raised_millis / 1000, UTC) if after else span.end
        day = min(span.end - _MILLI, begin).date()
        while day >= span.start.date() and days_left and len(found) <= limit:
            alerts = await self.views.alerts.read_raised(question.store_ids, day)
            matching = filter(question.matches, alerts)
            behind = (alert for alert in matching if _is_after_cursor(alert, after))
            # The days are read newest first, so that all alerts together are in order.
            found += sorted(behind, key=newest_first)
            day, days_left = day - _DAY, days_left - 1
        # An alert beyond the limit was read, so there is a next page.
        if len(found) > limit:
            return found[:limit], alert_cursor(found[limit - 1])
        if day < span.start.date():
            return found, None
        # Raise instants are whole milliseconds, so there is no alert between the last one of `day`
        # and this place, which is ahead of it.
        midnight = datetime.combine(day + _DAY, time(), UTC)
        return found, AlertPosition(to_millis(midnight) - 1, "")

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
        is_open = await self._read_open_ids([store_id] if of_span else [])
        shown = sorted(of_span, key=newest_first)
        return [to_listed(alert, alert.alert_id in is_open) for alert in shown]

    async def read_life(self, alert_id: str) -> AlertLife:
        """All messages of one alert. Raises UnknownName for an unknown id."""
        # A text that cannot be an id is not looked up.
        messages = await self.views.alerts.read_life(alert_id) if _ALERT_ID.match(alert_id) else []
        last, episode = current_states(messages).get(alert_id), newest_episode(alert_id, messages)
        if last is None or episode is None:
            problem = f"there is no alert {alert_id[:64]!r}; GET /v1/alerts lists them"
            raise UnknownName("alert_id", problem)
        kept = _drop_erased(messages)
        shown = sorted(kept, key=lambda alert: (newest_first(alert), state_rank(alert)))
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
    return -to_millis(raise_instant(alert)), alert.alert_id


def _drop_erased(messages: Sequence[Alert]) -> Iterator[Alert]:
    """The messages that may be shown: after an erasure, only the last one of the alert."""
    last = current_states(messages)
    for message in messages:
        newest = last[message.alert_id]
        if newest.reason != "erasure" or message.state == newest.state:
            yield message


def _is_after_cursor(alert: Alert, place: AlertPosition | None) -> bool:
    return place is None or newest_first(alert) > (-place.raised_millis, place.alert_id)


@dataclass
class AlertActions:
    """Actions on alerts that are looked up in the alert tables.

    Every action raises EditsRefused where the settings refuse it, UnknownName for an alert that
    does not exist, Busy, and ViewsUnreachable when the alert cannot be read or the record written.
    """

    alert_queries: AlertQueryService
    writer: ActionWriter
    is_allowed: bool
    _waiting: int = field(default=0, init=False)
    _turn: asyncio.Semaphore = field(default_factory=asyncio.Semaphore, init=False)

    @classmethod
    def from_settings(
        cls, settings: Settings, inquiry: AlertQueryService, writer: ActionWriter | None = None
    ) -> "AlertActions":
        """Build the actions from the settings; without a writer they write to Kafka topics."""
        writer = partial(_write_action, settings) if writer is None else writer
        return cls(inquiry, writer, settings.rule_edits == "allow")

    async def acknowledge(self, alert_id: str, by: str) -> Acknowledgement:
        """Record who has taken on the alert."""
        alert, at = await self._find_alert(alert_id), self._now()
        record = Acknowledgement(alert_id=alert.alert_id, store_id=alert.store_id, at=at, by=by)
        await self._write(record)
        return record

    async def snooze(self, alert_id: str, minutes: int, by: str) -> Snooze:
        """Withhold the alert from all channels for this many minutes; 0 ends the snooze."""
        alert = await self._find_alert(alert_id)
        until = self._now() + minutes * 60_000
        record = Snooze(alert_id=alert.alert_id, store_id=alert.store_id, until=until, by=by)
        await self._write(record)
        return record

    async def resolve(self, alert_id: str, because: str, by: str) -> AlertResolution:
        """End the alert by hand. Raises AlertNotOpen for an alert that is not open."""
        alert = await self._find_alert(alert_id)
        require_open(alert.alert_id, alert.open)
        record = AlertResolution.from_alert(alert, self._now(), by, because)
        await self._write(record)
        return record

    async def _find_alert(self, alert_id: str) -> ListedAlert:
        if not self.is_allowed:
            raise EditsRefused(
                "alerts are not acknowledged, snoozed or resolved from here (TALLY_RULE_EDITS);"
                " use `tally alerts ack`, `snooze` or `resolve` on the server"
            )
        return (await self.alert_queries.read_life(alert_id)).last

    async def _write(self, record: ActionRecord) -> None:
        if self._waiting >= MAX_WAITING:
            raise Busy(f"{MAX_WAITING} actions on alerts wait to be written; try again later")
        self._waiting += 1
        try:
            async with self._turn:
                await asyncio.to_thread(self.writer, record)
        except (KafkaException, SendFailed, StackError) as error:
            advice = "look at `tally status`, then try again"
            raise ViewsUnreachable(f"the action cannot be stored right now; {advice}") from error
        finally:
            self._waiting -= 1

    def _now(self) -> int:
        return to_millis(self.alert_queries.now())


def _write_action(settings: Settings, record: ActionRecord) -> None:
    """Write to the topics of `tally alerts ack`, `snooze` and `resolve`."""
    if isinstance(record, AlertResolution):
        write_resolution(settings, record)
    else:
        write_controls(settings, [record])
