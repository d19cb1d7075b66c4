"""Comparison of served values with the oracle, cell by cell."""

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, TypeAlias

from ops.audit.master import WindowKey
from ops.audit.served import is_covered, totals
from ops.oracle import Totals, stores_in
from tally.algebra.merge import MergedWindow
from tally.algebra.parts import Value
from tally.errors import ApiError, StackError, TallyError
from tally.families.generation import Generation
from tally.time.instants import format_utc
from tally.time.windows import WINDOW
from web.client import ApiClient

# Concurrent questions.
READERS = 4
# The API returns at most this many rows in one answer.
_MAX_ROWS = "10000"
_SECONDS = 30

ApiRow: TypeAlias = dict[str, Any]
# A question as query_parameters() returns it, and the function that answers it with the rows of a
# metric by the dimensions.
QueryParameters: TypeAlias = Mapping[str, str]
FetchRows: TypeAlias = Callable[[str, QueryParameters, Sequence[str]], Iterable[ApiRow]]


def query_parameters(key: WindowKey) -> dict[str, str]:
    """The query parameters that ask the API for one window."""
    store, start = key
    span = {"from": format_utc(start), "to": format_utc(start + WINDOW)}
    return {"store": store, **span, "grain": "15m"}


@contextmanager
def open_client(api: str) -> Iterator[Callable[..., list[ApiRow]]]:
    """Yield a function: ask(metric, query_parameters(key), dimensions) is all rows of the API.

    It raises TallyError when the API refuses, StackError when the API does not answer.
    """
    with ApiClient(api, "audit", _SECONDS) as client:

        def ask(metric: str, parameters: QueryParameters, by: Sequence[str]) -> list[ApiRow]:
            """All rows. Raises TallyError or StackError."""
            more = {"by": ",".join(by), "limit": _MAX_ROWS} if by else {}
            pages = client.pages(f"/v1/metrics/{metric}", {**parameters, **more})
            try:
                return [row for page in pages for row in page["rows"]]
            except ApiError as error:
                if error.status is None:
                    raise StackError(f"{error}; --http 0 leaves it out") from error
                answered = f"{error.url} answered {error.status}: {error.reason}"
                raise TallyError(f"audit: {answered}") from error

        yield ask


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
    """One cell that differs; money is in minor units, a part in the form of its kind."""

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
            return {metric: ask(metric, query_parameters(key), ())[0] for metric in METRICS}

        answers = list(readers.map(fetch_answers, keys))
    wrong: list[Difference] = []
    for key, answer in zip(keys, answers, strict=True):
        covered = is_covered(claims, key[1])
        for metric, name in METRICS.items():
            where, should = (*key, metric), getattr(expected.get(key, _NONE), name)
            wrong += compare_row(where, should, answer[metric], covered)
    unequal = {(difference.store, difference.start) for difference in wrong}
    return Comparison(
        windows=len(keys),
        equal=len(keys) - len(unequal),
        receipts=sum(answer["transactions"]["value"] or 0 for answer in answers),
        minor=sum(answer["revenue"]["value"] or 0 for answer in answers),
        differences=wrong,
    )


def compare_row(
    where: tuple[str, datetime, str],
    should: Value,
    row: ApiRow,
    all_covered: bool,
    may_be_missing: bool = False,
) -> Iterator[Difference]:
    """Yield the differences of an answered row of (store, window, metric): value and claim."""
    store, start, name = where
    got, source = row["value"], row["source"]
    is_unknown = got is None and source == "missing" and may_be_missing
    if got != should and not is_unknown:
        yield Difference(store, format_utc(start), name, should, got)
    # A comparison of values alone would accept an API that calls everything final.
    if not is_claim_correct(row, all_covered):
        claim = f"{name}: {source}, {row['status']}"
        yield Difference(store, format_utc(start), claim, should, got)


def is_claim_correct(row: ApiRow, all_covered: bool) -> bool:
    """Whether the answer claims neither more nor less than a generation of all its windows."""
    if row["complete"] or row["status"] in ("final", "restated"):
        return all_covered and bool(row["source"] == "batch")
    return not (all_covered and row["source"] == "missing")


def random_windows(
    filled: Collection[WindowKey], count: int, chance: random.Random
) -> list[WindowKey]:
    """Draw `count` windows of the filled stores and days, half of them filled; some repeat."""
    known, stores = sorted(filled), stores_in(filled)
    first, last = min(start for _, start in known), max(start for _, start in known)
    # Half are drawn anywhere: most quarter hours are empty, and a zero is an answer too.
    grid = (last - first) // WINDOW + 1

    def draw() -> WindowKey:
        return chance.choice(stores), first + chance.randrange(grid) * WINDOW

    anywhere = [draw() for _ in range(count // 2)]
    return anywhere + [chance.choice(known) for _ in range(count - len(anywhere))]
