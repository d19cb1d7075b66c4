"""Comparison of served values with the oracle, cell by cell."""

import random
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from ops.audit.read.api_answers import READERS, open_client, query_parameters
from ops.audit.read.master import WindowKey
from ops.audit.read.served import is_covered, totals
from ops.oracle.complete_journey import Totals, stores_in
from tally.algebra.merge import MergedWindow
from tally.algebra.parts import Value
from tally.errors import TallyError
from tally.families.generation import Generation
from tally.time.instants import format_utc
from tally.time.windows import WINDOW

# These are compared by HTTP; units are compared in the table rows only.
METRICS = {"transactions": "receipts", "revenue": "minor"}
_NONE = Totals()


@dataclass(frozen=True)
class Sample:
    """How many windows to ask for, and the seed that chooses them."""

    count: int
    seed: int


@dataclass(frozen=True)
class Difference:
    """One cell that differs from the oracle.

    Money is in minor units, a part in the form of its kind.
    """

    store: str
    start: str
    metric: str
    expected: Value
    got: Value


@dataclass(frozen=True)
class ComparedWindows:
    """How many windows were compared, and how many of them are equal."""

    windows: int
    equal: int

    @property
    def ok(self) -> bool:
        """Whether something was compared and everything is equal."""
        return self.windows > 0 and self.windows == self.equal


@dataclass(frozen=True)
class Comparison(ComparedWindows):
    """A comparison with the oracle: what the windows sum to, and each cell that differs."""

    receipts: int
    minor: int
    differences: list[Difference] = field(default_factory=list)


def compare_rows(
    expected: Mapping[WindowKey, Totals], served: Mapping[WindowKey, MergedWindow]
) -> Comparison:
    """Compare the three values of all windows that the oracle or the tables hold."""
    got = {key: totals(window) for key, window in served.items()}
    keys = sorted(expected.keys() | got.keys())
    wrong = {key: [*_differences(key, expected, got)] for key in keys}
    return Comparison(
        windows=len(keys),
        equal=sum(not found for found in wrong.values()),
        receipts=sum(cell.receipts for cell in got.values()),
        minor=sum(cell.minor for cell in got.values()),
        differences=[difference for found in wrong.values() for difference in found],
    )


def _differences(
    key: WindowKey, expected: Mapping[WindowKey, Totals], got: Mapping[WindowKey, Totals]
) -> Iterator[Difference]:
    # A window that a side lacks counts as zero: neither side writes rows without records.
    sides = expected.get(key, _NONE), got.get(key, _NONE)
    for metric, name in {**METRICS, "units": "units_milli"}.items():
        should, does = (getattr(side, name) for side in sides)
        if should != does:
            yield Difference(key[0], format_utc(key[1]), metric, should, does)


def compare_http(
    api: str,
    expected: Mapping[WindowKey, Totals],
    sample: Sample,
    claims: Mapping[date, Generation],
) -> Comparison:
    """Compare random windows of the API with the oracle.

    Half of them have receipts, half are anywhere in the same days. Beside the value it is checked
    that an answer called complete is covered by a generation, and that a covered window is not
    missing. Raises TallyError when nothing is expected, or the API does not answer.
    """
    if not expected:
        raise TallyError("audit: the oracle has no receipts in this scope; widen --days or --store")
    # A sample, not a secret.
    keys = random_windows(expected, sample.count, random.Random(sample.seed))
    with open_client(api) as ask, ThreadPoolExecutor(READERS) as readers:

        def fetch_answers(key: WindowKey) -> dict[str, Any]:
            question = query_parameters(key)
            return {metric: ask(metric, question, ())[0] for metric in METRICS}

        answers = list(readers.map(fetch_answers, keys))
    wrong: list[Difference] = []
    for key, answer in zip(keys, answers, strict=True):
        where = key[0], format_utc(key[1])
        oracle = expected.get(key, _NONE)
        for metric, name in METRICS.items():
            row, should = answer[metric], getattr(oracle, name)
            if row["value"] != should:
                wrong.append(Difference(*where, metric, should, row["value"]))
            # A comparison of values alone would accept an API that calls everything final.
            if not is_claim_correct(row, key[1], claims):
                wrong.append(
                    Difference(
                        *where, f"{metric}: {row['source']}, {row['status']}", should, row["value"]
                    )
                )
    unequal = {(difference.store, difference.start) for difference in wrong}
    return Comparison(
        windows=len(keys),
        equal=len(keys) - len(unequal),
        receipts=sum(answer["transactions"]["value"] or 0 for answer in answers),
        minor=sum(answer["revenue"]["value"] or 0 for answer in answers),
        differences=wrong,
    )


def is_claim_correct(
    row: Mapping[str, Any], start: datetime, claims: Mapping[date, Generation]
) -> bool:
    """Whether the answer's claim about a window agrees with the generation of its day.

    The answer is complete only if the window is covered, and a covered window is never missing.
    """
    return claim_matches_coverage(row, is_covered=is_covered(claims, start))


def claim_matches_coverage(row: Mapping[str, Any], *, is_covered: bool) -> bool:
    """Whether the answer claims neither more nor less than a generation of all its windows."""
    if row["complete"] or row["status"] in ("final", "restated"):
        return is_covered and bool(row["source"] == "batch")
    return not (is_covered and row["source"] == "missing")


def random_windows(
    filled: Collection[WindowKey], count: int, chance: random.Random
) -> list[WindowKey]:
    """Draw `count` random windows from the stores and days of the filled windows.

    Half of them are filled; a window may be drawn twice. There must be at least one filled window.
    """
    known, stores = sorted(filled), stores_in(filled)
    first, last = min(start for _, start in known), max(start for _, start in known)
    # Half are drawn anywhere: most quarter hours are empty, and a zero is an answer too.
    grid = (last - first) // WINDOW + 1
    drawn: list[WindowKey] = []
    for _ in range(count // 2):
        drawn.append((chance.choice(stores), first + chance.randrange(grid) * WINDOW))
    return drawn + [chance.choice(known) for _ in range(count - len(drawn))]
