"""The attacker who subtracts: what follows from sums that were told, by elimination."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tally.time.windows import WINDOW, TimeRange
from tests.support.serving.small_cells import CLASSES, DAY_SLOT, OPEN_AT, Day, stretches

# A sum that is in the span of others over the rationals is so over this field too.
PRIME = 2**61 - 1
# What can be asked for, and what it adds up of the parts; of different devices nobody counts again
# in these days.
SUMS = {
    "in_store_traffic": {"visits": 1},
    "outside_traffic": {"passes": 1},
    "heard_traffic": {"visits": 1, "passes": 1},
    "bounces": {"bounces": 1},
    "returning_visits": {"returns": 1},
    "unique_devices": {"visits": 1, "returns": -1},
}
# No metric, and as much of few people.
ALSO_SMALL = {"who did not bounce": {"visits": 1, "bounces": -1}}
FACTORS = {**SUMS, **ALSO_SMALL}
PARTS = ("visits", "passes", "bounces", "returns")
Row = dict[int, int]


class Asked(NamedTuple):
    """One number that can be asked for; `mac_class` None is all of them together."""

    metric: str
    stretch: TimeRange
    mac_class: str | None


IsTold = Callable[[Asked], bool]


def questions(quarters: int, metrics: Iterable[str] = SUMS) -> Iterator[Asked]:
    """Every question about the quarter hours, and about their day."""
    for stretch in stretches(quarters):
        for metric in metrics:
            for mac_class in (None, *CLASSES):
                yield Asked(metric, stretch, mac_class)


def value_of(day: Day, quarters: int, asked: Asked) -> int:
    """The true number."""
    return sum(
        factor * getattr(counts, part)
        for (quarter, mac_class), counts in day.items()
        for part, factor in FACTORS[asked.metric].items()
        if quarter in _quarters(asked, quarters) and asked.mac_class in (None, mac_class)
    )


def revealed(day: Day, quarters: int, smallest: int, is_told: IsTold) -> list[Asked]:
    """The small numbers that follow from those that are told, or are told themselves."""
    span = _Span()
    for asked in questions(quarters):
        if is_told(asked):
            span.add(_sum_of(asked, quarters))
    return [
        asked
        for asked in questions(quarters, FACTORS)
        if 0 < value_of(day, quarters, asked) < smallest and span.has(_sum_of(asked, quarters))
    ]


def _quarters(asked: Asked, quarters: int) -> range:
    if asked.stretch == DAY_SLOT:
        return range(quarters)
    first, end = ((instant - OPEN_AT) // WINDOW for instant in asked.stretch)
    return range(first, end)


def _sum_of(asked: Asked, quarters: int) -> Row:
    """The unknowns that the number adds up, each with its factor."""
    classes = CLASSES if asked.mac_class is None else (asked.mac_class,)
    return {
        (quarter * len(PARTS) + PARTS.index(part)) * len(CLASSES) + CLASSES.index(one): factor
        for quarter in _quarters(asked, quarters)
        for part, factor in FACTORS[asked.metric].items()
        for one in classes
    }


class _Span:
    """What sums of unknowns add up to, and differ by."""

    def __init__(self) -> None:
        # By its first unknown, which has the factor 1.
        self._rows: dict[int, Row] = {}

    def add(self, row: Row) -> None:
        left = self._left(row)
        if left:
            first = min(left)
            inverse = pow(left[first], -1, PRIME)
            self._rows[first] = {at: factor * inverse % PRIME for at, factor in left.items()}

    def has(self, row: Row) -> bool:
        return not self._left(row)

    def _left(self, row: Row) -> Row:
        left, done = dict(row), -1
        while ahead := [at for at in left if at > done]:
            done = min(ahead)
            if known := self._rows.get(done):
                factor = left[done]
                for at, times in known.items():
                    left[at] = (left.get(at, 0) - factor * times) % PRIME
                left = {at: value for at, value in left.items() if value}
        return left
