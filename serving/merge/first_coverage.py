"""Pure functions to find the first generation that covered a window.

A changed number is compared with the number of that generation.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import NamedTuple

from serving.storage.protocol import GenerationSpan
from tally.families.generation import GenerationRange
from tally.time.windows import window_start


class FirstCoverage(NamedTuple):
    """A generation of a day, and the instants between which its new windows lie.

    The span is [start, end); no generation before it covered these windows.
    """

    covering: GenerationRange
    start: datetime
    end: datetime


def first_covering_generations(
    history: Sequence[GenerationRange], serving: GenerationRange
) -> list[FirstCoverage]:
    """The generations before the serving one that were the first to cover a window of the day.

    They keep the order of the history.
    """
    # By window and not by day: the first generation of a day covers only its first hour, and a
    # number of a later hour that changed was compared with nothing (seen).
    found: list[FirstCoverage] = []
    for past in history:
        if past.generation < serving.generation and past.covered_from < past.covered_until:
            found += _new_coverage(past, found)
    return found


def _new_coverage(
    covering: GenerationRange, before: Sequence[FirstCoverage]
) -> list[FirstCoverage]:
    """The span that the generation covers, less what earlier ones covered at either end.

    The window in which the earlier ones ended belongs to it.
    """
    # At either end, for a day that is later declared as sent whole begins earlier from then on.
    start, end = covering.covered_from, covering.covered_until
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
    return [FirstCoverage(covering, start, end)] if start < end else []


def generation_spans(firsts: Iterable[FirstCoverage]) -> list[GenerationSpan]:
    """The spans to read of these generations: one (UTC, [start, end)) for each generation.

    The days of a generation are read together, from the first instant to the last.
    """
    by_generation: dict[int, list[FirstCoverage]] = defaultdict(list)
    for first in firsts:
        by_generation[first.covering.generation].append(first)
    return [
        GenerationSpan(
            generation,
            _days(own),
            min(share.start for share in own),
            max(share.end for share in own),
        )
        for generation, own in by_generation.items()
    ]


def _days(firsts: Iterable[FirstCoverage]) -> tuple[date, ...]:
    return tuple(sorted({first.covering.day for first in firsts}))
