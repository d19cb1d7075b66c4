"""The addresses of pages, and of the same numbers in the HTTP API; the period that they name."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from urllib.parse import quote, urlencode

from serving.questions import grains
from serving.questions.question import StoreSlots
from serving.questions.stores import Store
from tally.time.day_clock import DayClock
from tally.time.windows import TimeRange

LENGTHS = (7, 28, 91)
# The address of the editor for a new rule is not below /rules, because any name there may be the id
# of a rule.
RULES, NEW_RULE = "/rules", "/new-rule"
# These lie within the years that can be queried (question.py), with room for the period before.
EARLIEST, LATEST = date(1972, 1, 1), date(2168, 1, 1)


@dataclass(frozen=True)
class Period:
    """A period of `length` local days that ends with the day `last`."""

    last: date
    length: int

    @property
    def first(self) -> date:
        """The first day."""
        return self.last - timedelta(days=self.length - 1)

    @property
    def days(self) -> list[date]:
        """Every day, ascending."""
        return [self.first + timedelta(days=i) for i in range(self.length)]

    def shift(self, periods: int) -> "Period":
        """The period this many lengths later (earlier if negative)."""
        return Period(self.last + timedelta(days=periods * self.length), self.length)

    def quarter_hours(self, store: Store) -> StoreSlots:
        """The quarter hours, UTC, by the store's own days; one of a clock change has 92 or 100."""
        quarters = grains.slots(*self.span(store.clock), "15m", store.clock)
        return StoreSlots(store.store_id, store.clock, quarters)

    def span(self, clock: DayClock) -> TimeRange:
        """From the start of the first day to the start of the day after the last, UTC."""
        after = self.last + timedelta(days=1)
        return TimeRange(clock.start_of_day(self.first), clock.start_of_day(after))


def parse_period(last: str, length: str, newest: date | None) -> Period:
    """The period that an address names, by default 28 days up to the newest day with events."""
    # An address may hold anything, so only a length that a reader could choose is converted.
    days = int(length) if length in map(str, LENGTHS) else 28
    # Without any events yet, today is as good a default as any day.
    default = newest or datetime.now(UTC).date()
    try:
        chosen = date.fromisoformat(last) if last else default
    except ValueError:
        chosen = default
    return Period(chosen if EARLIEST <= chosen <= LATEST else default, days)


def store_address(store_id: str, period: Period) -> str:
    """The address of a store's page."""
    return f"/?{urlencode({'store': store_id, **_period_query(period)})}"


def report_address(report_id: str, store_id: str, period: Period) -> str:
    """The address of a store's page for one report."""
    query = urlencode({"store": store_id, **_period_query(period)})
    return f"/report/{quote(report_id, safe='')}?{query}"


def overview_address(period: Period, number: int = 1) -> str:
    """The address of the overview of all stores, at this page number."""
    # The first page has no number, so that it has the address that people type.
    page_query = {"page": number} if number > 1 else {}
    return f"/stores?{urlencode(_period_query(period) | page_query)}"


def inbox_address(period: Period, store_id: str = "") -> str:
    """The address of the alert inbox, of all stores or of one."""
    store_query = {"store": store_id} if store_id else {}
    return f"/alerts?{urlencode({**store_query, **_period_query(period)})}"


def alert_address(alert_id: str) -> str:
    """The address of one alert's page."""
    return f"/alerts/{quote(alert_id, safe='')}"


def rule_address(rule_id: str, period: Period | None = None, store_id: str = "") -> str:
    """The address of one rule's page, for a store and a period if they are given."""
    store_query = {"store": store_id} if store_id else {}
    query = urlencode({**store_query, **(_period_query(period) if period else {})})
    return f"/rules/{quote(rule_id, safe='')}{'?' if query else ''}{query}"


def rule_edit_address(rule_id: str, period: Period, store_id: str) -> str:
    """The address of one rule's editor, which also simulates the rule in a store."""
    page, query = rule_address(rule_id, period, store_id).split("?")
    return f"{page}/edit?{query}"


def refusals_address(store_id: str = "") -> str:
    """The address of the page of refused events, of all stores or of one."""
    return f"/refused?{urlencode({'store': store_id})}" if store_id else "/refused"


def answer_address(report_id: str, store_id: str, period: Period) -> str:
    """The API address of a report for the same days, in the store's time zone."""
    # A page's period includes its last day; an API query ends before its `to` day.
    end = period.last + timedelta(days=1)
    query = {"store": store_id, "from": period.first.isoformat(), "to": end.isoformat()}
    return f"/v1/reports/{quote(report_id, safe='')}?{urlencode(query)}"


def _period_query(period: Period) -> dict[str, str | int]:
    return {"days": period.length, "until": period.last.isoformat()}
