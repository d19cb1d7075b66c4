"""What bench/judging.py judges: rules of several kinds, stores whose numbers follow from their
names and the time, and an own count of what has to be raised."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple
from zlib import crc32

from runtime.sources import SALES, TRAFFIC
from serving.alerts.evaluator.calendar import millis_of
from serving.merge.views import Activity, ViewRow
from tally.alerts.ids import window_text
from tally.alerts.message import Alert
from tally.alerts.rule import ClockHours, Rule, RuleVersion, Threshold
from tally.families import Family
from tally.windows import WINDOW, window_starts
from tests.support.serving_world import MemoryViews, Stored, World, counted, flip, sale

FAMILIES_JUDGED = (SALES, TRAFFIC)
NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
# Midnight in Rome: one local day is judged, and rebuilt up to NOW.
SINCE = datetime(2026, 11, 23, 23, tzinfo=UTC)
UNTIL = NOW + timedelta(hours=1)
COMPARED_STORES = 5


class QuarterNumbers(NamedTuple):
    """Of one store and quarter hour."""

    receipts: int
    cents: int
    visitors: int


NumberOf = Callable[[QuarterNumbers], int | Fraction]
# By metric what it is of a quarter hour, and what it is compared with by the number of a rule.
METRICS: Mapping[str, tuple[NumberOf, Callable[[int], Decimal]]] = {
    "transactions": (lambda of: of.receipts, lambda n: Decimal(40 + n % 60)),
    "revenue": (lambda of: of.cents, lambda n: Decimal(135_000 + n * 997 % 90_000)),
    "units": (lambda of: of.receipts, lambda n: Decimal(41 + n % 50)),
    "average_basket": (
        lambda of: Fraction(of.cents, of.receipts),
        lambda n: Decimal(3_480 + n % 30),
    ),
    "visitors_in": (lambda of: of.visitors, lambda n: Decimal(98 + n % 50)),
    "conversion": (
        lambda of: Fraction(of.receipts, of.visitors),
        lambda n: Decimal(97 + n % 6) / 100,
    ),
}


def store_names(count: int) -> list[str]:
    """So many stores."""
    return [str(1_000 + number) for number in range(count)]


def numbers_of(store_id: str, start: datetime) -> QuarterNumbers:
    """What a store had in a quarter hour."""
    drawn = crc32(f"{store_id}|{start.timestamp()}".encode())
    # One in 300 is a rush, and most rules are about those.
    receipts = 1 + drawn % 40 + 60 * (drawn % 300 == 0)
    return QuarterNumbers(
        receipts, receipts * (500 + drawn // 40 % 3_000), receipts + drawn // 9_973 % 60
    )


def rules_of(count: int) -> list[RuleVersion]:
    """So many rules, in force since SINCE: of six metrics, some within hours, some that wait for
    another one, and one in twenty that waits for silence."""
    made = map(_rule, range(count))
    return [RuleVersion(rule=one, version=1, effective_from=millis_of(SINCE)) for one in made]


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


def rows_of_day(
    family: Family, store_id: str, day: date, generation: int | None = None
) -> Iterator[Stored]:
    """A row for each quarter hour that has been."""
    begin = datetime.combine(day, clock_time(), UTC)
    end = min(UNTIL if generation is None else NOW, begin + timedelta(days=1))
    for start in window_starts(begin, end):
        of, text = numbers_of(store_id, start), f"{start:%Y-%m-%dT%H:%M}"
        if family is SALES:
            more = {} if generation is None else {"generation": generation}
            yield sale(store_id, text, of.receipts, of.cents, **more)
        else:
            yield counted(store_id, text, 1, of.visitors, generation)


class MadeViews(MemoryViews):
    """The views of these stores; no row is kept anywhere. `seconds`: of the processor, for that."""

    def __init__(self, stores: Sequence[str]) -> None:
        super().__init__(World(activity=[*_activity(stores)]))
        self.seconds = 0.0

    async def speed_rows(
        self, family: Family, store_id: str, days: Sequence[date]
    ) -> list[ViewRow]:
        """Those of the days, made."""
        return self._made(family, store_id, dict.fromkeys(days))

    async def batch_rows(
        self, family: Family, store_id: str, generations: Mapping[date, int]
    ) -> list[ViewRow]:
        """Those of the generations, made."""
        return self._made(family, store_id, generations)

    def _made(
        self, family: Family, store_id: str, days: Mapping[date, int | None]
    ) -> list[ViewRow]:
        began = time.process_time()
        made = (rows_of_day(family, store_id, *one) for one in days.items())
        found = [one.row for some in made for one in some]
        self.seconds += time.process_time() - began
        return found


def rebuilt(views: MadeViews) -> None:
    """From now on a generation serves the day up to NOW, with the same numbers."""
    now = f"{NOW:%Y-%m-%dT%H:%M}"
    one = flip(f"{NOW.date()}", 1, now, 0, covered_until=now)
    views.world.pointers += [(family, one) for family in FAMILIES_JUDGED]


def compared_raises(
    rules: Sequence[RuleVersion], stores: Sequence[str], told: Iterable[Alert], quarters: int
) -> None:
    """Raises SystemExit unless of some stores exactly what has to be raised was told, up to so many
    quarter hours after NOW."""
    some = stores[:: max(1, len(stores) // COMPARED_STORES)]
    found = sorted(
        (one.rule_id, one.store_id, one.window.start)
        for one in told
        if one.edge == "raise" and one.store_id in some
    )
    starts = window_starts(SINCE, NOW + quarters * WINDOW)
    expected = sorted(
        (one.rule.rule_id, store_id, window_text(millis_of(start)))
        for store_id in some
        for one in rules
        for start in _raised(one.rule, store_id, starts)
    )
    if found != expected:
        raise SystemExit(f"{len(found):,} raises in place of {len(expected):,}, or others")


def _raised(rule: Rule, store_id: str, starts: Iterable[datetime]) -> Iterator[datetime]:
    """The windows in which an episode is raised: by each number on its own."""
    run, is_open = 0, False
    if not isinstance(rule.condition, Threshold):
        return
    for start in starts:
        # In November the clock of Rome is an hour ahead.
        if rule.within != "always" and not 7 <= start.hour < 19:
            run = 0
            continue
        value = METRICS[rule.metric or ""][0](numbers_of(store_id, start))
        is_high = Fraction(value) >= Fraction(rule.condition.value)
        run = run + 1 if is_high and not is_open else 0
        is_open = is_high and is_open
        if run == rule.for_:
            run, is_open = 0, True
            yield start


def _activity(stores: Sequence[str]) -> Iterator[tuple[Family, Activity]]:
    first = SINCE.date() - timedelta(days=30)
    for family in FAMILIES_JUDGED:
        for store_id in stores:
            yield family, Activity(store_id, first, NOW.date())
