"""Which generation was the first to cover a window. Pure functions.

What it said is what a changed number is compared with.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import NamedTuple

from serving.merge.views import GenerationSpan
from tally.generation import Covering
from tally.windows import window_start


class First(NamedTuple):
    """A generation of a day, and the instants between which its new windows lie.

    They are [start, end); no generation before it covered these windows.
    """

    covering: Covering
    start: datetime
    end: datetime


def first_to_cover(history: Sequence[Covering], serving: Covering) -> list[First]:
    """The generations before the serving one that were the first to cover a window of the day.

    They are in their order.
    """
    # By window and not by day: the first generation of a day covers its first hour, and a number
    # that changed after that was compared with nothing (seen).
    found: list[First] = []
    for one in history:
        if one.generation < serving.generation and one.covered_from < one.covered_until:
            found += _share(one, found)
    return found


def _share(one: Covering, before: Sequence[First]) -> list[First]:
    """What the generation covers less what those before it did at either end.

    The window in which they ended belongs to it.
    """
    # At either end: a day that is declared as sent whole later on begins earlier from then on.
    start, end = one.covered_from, one.covered_until
    start = max(
        [
            window_start(earlier.covered_until)
            for earlier, *_ in before
            if earlier.covered_from <= start
        ]
        + [start]
    )
    end = min(
        [earlier.covered_from for earlier, *_ in before if earlier.covered_until >= end] + [end]
    )
    return [First(one, start, end)] if start < end else []


def spans(firsts: Iterable[First]) -> list[GenerationSpan]:
    """What has to be read of these generations: one span (UTC, [start, end)) for each of them.

    The days of each are read together, from the first instant to the last.
    """
    by_generation: dict[int, list[First]] = defaultdict(list)
    for one in firsts:
        by_generation[one.covering.generation].append(one)
    return [
        GenerationSpan(
            generation,
            _days(some),
            min(one.start for one in some),
            max(one.end for one in some),
        )
        for generation, some in by_generation.items()
    ]


def _days(firsts: Iterable[First]) -> tuple[date, ...]:
    return tuple(sorted({one.covering.day for one in firsts}))
