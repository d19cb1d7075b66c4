"""The rules and stores of bench/judging.py, and an independent count of the expected alerts.

The rules are of several kinds; the stores' numbers are derived from their names and the time.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple
from zlib import crc32

from alerting.alert.ids import window_text
from alerting.rules.rule import ClockHours, Rule, RuleVersion, Threshold
from runtime.registry.sources import SALES, TRAFFIC
from serving.storage.tables import Activity, StoredVersion, ViewRow
from tally.alerts.message import Alert
from tally.families.family import Family
from tally.time.instants import to_millis
from tally.time.windows import WINDOW, window_starts
from tests.support.serving.serving_world import MemoryViews, Stored, World, counted, flip, sale

EVALUATED_FAMILIES = (SALES, TRAFFIC)
NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
# Midnight in Rome: one local day is evaluated, and rebuilt up to NOW.
SINCE = datetime(2026, 11, 23, 23, tzinfo=UTC)
UNTIL = NOW + timedelta(hours=1)
COMPARED_STORES = 5


class QuarterNumbers(NamedTuple):
    """The numbers of one store and quarter hour."""

    receipts: int
    cents: int
    visitors: int


NumberFunction = Callable[[QuarterNumbers], int | Fraction]
# By metric: its value of a quarter hour, and the threshold by the number of a rule.
METRICS: Mapping[str, tuple[NumberFunction, Callable[[int], Decimal]]] = {
    "transactions": (lambda quarter: quarter.receipts, lambda n: Decimal(40 + n % 60)),
    "revenue": (lambda quarter: quarter.cents, lambda n: Decimal(135_000 + n * 997 % 90_000)),
    "units": (lambda quarter: quarter.receipts, lambda n: Decimal(41 + n % 50)),
    "average_basket": (
        lambda quarter: Fraction(quarter.cents, quarter.receipts),
        lambda n: Decimal(3_480 + n % 30),
    ),
    "visitors_in": (lambda quarter: quarter.visitors, lambda n: Decimal(98 + n % 50)),
    "conversion": (
        lambda quarter: Fraction(quarter.receipts, quarter.visitors),
        lambda n: Decimal(97 + n % 6) / 100,
    ),
}


def store_names(count: int) -> list[str]:
    """The names of this many stores."""
    return [str(1_000 + number) for number in range(count)]


def make_numbers(store_id: str, start: datetime) -> QuarterNumbers:
    """The numbers of a store in a quarter hour."""
    drawn = crc32(f"{store_id}|{start.timestamp()}".encode())
    # One quarter hour in 300 is a rush, and most rules fire on those.
    receipts = 1 + drawn % 40 + 60 * (drawn % 300 == 0)
    return QuarterNumbers(
        receipts, receipts * (500 + drawn // 40 % 3_000), receipts + drawn // 9_973 % 60
    )


def make_rules(count: int) -> list[RuleVersion]:
    """This many rules, in force from SINCE.

    They are on six metrics, some within hours, some suppressed by another rule, and one in twenty
    fires on silence.
    """
    rules = map(_rule, range(count))
    return [RuleVersion(rule=rule, version=1, effective_from=to_millis(SINCE)) for rule in rules]


def _rule(number: int) -> Rule:
    if number % 20 == 0:
        return Rule(
            rule_id=f"rule-{number}", kind="silence", family="sales", on_silence="raise", for_=2
        )
    name = [*METRICS][number % len(METRICS)]
    return Rule(
        rule_id=f"rule-{number}",
        metric=name,
        condition=Threshold(">=", METRICS[name][1](number)),
        for_=1 + number // len(METRICS) % 3,
        within=(ClockHours("mon-sun", "08:00", "20:00"),) if number % 10 == 1 else "always",
        unless=("rule-0",) if number % 7 == 3 else (),
    )


def make_day_rows(
    family: Family, store_id: str, day: date, generation: int | None = None
) -> Iterator[Stored]:
    """Yield a row for each past quarter hour of the day (UTC)."""
    begin = datetime.combine(day, clock_time(), UTC)
    end = min(UNTIL if generation is None else NOW, begin + timedelta(days=1))
    for start in window_starts(begin, end):
        numbers, text = make_numbers(store_id, start), f"{start:%Y-%m-%dT%H:%M}"
        if family is SALES:
            more = {} if generation is None else {"generation": generation}
            yield sale(store_id, text, numbers.receipts, numbers.cents, **more)
        else:
            yield counted(store_id, text, 1, numbers.visitors, generation)


class GeneratedViews(MemoryViews):
    """The views of these stores, whose rows are generated for each read.

    `seconds`: the processor seconds that this takes.
    """

    def __init__(self, stores: Sequence[str]) -> None:
        super().__init__(World(activity=[*_activity(stores)]))
        self.seconds = 0.0

    async def speed_rows(
        self, family: Family, store_id: str, days: Sequence[date]
    ) -> list[ViewRow]:
        """Generate the speed rows of the days."""
        return self._make_rows(family, store_id, dict.fromkeys(days))

    async def batch_versions(
        self, family: Family, store_id: str, days: Sequence[date]
    ) -> dict[date, list[StoredVersion]]:
        """Generate the batch rows of generation 1."""
        rows = self._make_rows(family, store_id, dict.fromkeys(days, 1))
        found: dict[date, list[StoredVersion]] = defaultdict(list)
        for row in rows:
            key = row.window_start, row.axes
            found[row.window_start.date()].append((key, 1, row))
        return found

    def _make_rows(
        self, family: Family, store_id: str, days: Mapping[date, int | None]
    ) -> list[ViewRow]:
        began = time.process_time()
        stored_days = (make_day_rows(family, store_id, *day) for day in days.items())
        found = [stored.row for stored_rows in stored_days for stored in stored_rows]
        self.seconds += time.process_time() - began
        return found


def publish_generation(views: GeneratedViews) -> None:
    """Publish a generation that serves the day up to NOW, with the same numbers."""
    now = f"{NOW:%Y-%m-%dT%H:%M}"
    pointer = flip(f"{NOW.date()}", 1, now, 0, covered_until=now)
    views.world.pointers += [(family, pointer) for family in EVALUATED_FAMILIES]


def check_raises(
    rules: Sequence[RuleVersion], stores: Sequence[str], told: Iterable[Alert], quarters: int
) -> None:
    """Compare the alerts of some stores with the expected ones, up to `quarters` after NOW.

    Raises SystemExit when they differ.
    """
    sampled = stores[:: max(1, len(stores) // COMPARED_STORES)]
    found = sorted(
        (alert.rule_id, alert.store_id, alert.window.start)
        for alert in told
        if alert.edge == "raise" and alert.store_id in sampled
    )
    starts = window_starts(SINCE, NOW + quarters * WINDOW)
    expected = sorted(
        (version.rule.rule_id, store_id, window_text(to_millis(start)))
        for store_id in sampled
        for version in rules
        for start in _compute_expected_windows(version.rule, store_id, starts)
    )
    if found != expected:
        raise SystemExit(f"{len(found):,} raises in place of {len(expected):,}, or others")


def _compute_expected_windows(
    rule: Rule, store_id: str, starts: Iterable[datetime]
) -> Iterator[datetime]:
    """Yield the windows in which an episode is raised, computed from the numbers alone."""
    run, is_open = 0, False
    if not isinstance(rule.condition, Threshold):
        return
    for start in starts:
        # In November the clock in Rome is one hour ahead of UTC.
        if rule.within != "always" and not 7 <= start.hour < 19:
            run = 0
            continue
        value = METRICS[rule.metric or ""][0](make_numbers(store_id, start))
        is_high = Fraction(value) >= Fraction(rule.condition.value)
        run = run + 1 if is_high and not is_open else 0
        is_open = is_high and is_open
        if run == rule.for_:
            run, is_open = 0, True
            yield start


def _activity(stores: Sequence[str]) -> Iterator[tuple[Family, Activity]]:
    first = SINCE.date() - timedelta(days=30)
    for family in EVALUATED_FAMILIES:
        for store_id in stores:
            yield family, Activity(store_id, first, NOW.date())
