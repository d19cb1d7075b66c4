"""Served values against the oracle, cell by cell."""

import random
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx

from ops.audit.served import Key, totals
from ops.oracle.complete_journey import Totals, stores_in
from tally.errors import TallyError
from tally.instants import instant_text
from tally.merge import MergedWindow
from tally.windows import WINDOW

METRICS = {"transactions": "receipts", "revenue": "minor"}
_READERS = 4


@dataclass(frozen=True)
class Difference:
    """One cell that is not what the oracle says; money in minor units."""

    store: str
    start: str
    metric: str
    expected: int
    got: int | None


@dataclass(frozen=True)
class Comparison:
    """How many cells were compared and equal, what they sum to, and each one that differs."""

    windows: int
    equal: int
    receipts: int
    minor: int
    differences: list[Difference] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether something was compared and everything is equal."""
        return self.windows > 0 and self.windows == self.equal


def compare_rows(expected: Mapping[Key, Totals], served: Mapping[Key, MergedWindow]) -> Comparison:
    """All windows that the oracle or the tables hold, each of their three values."""
    got = {key: totals(window) for key, window in served.items()}
    keys = sorted(expected.keys() | got.keys())
    wrong = {key: list(_differences(key, expected.get(key, Totals()), got.get(key, Totals()))) for key in keys}
    return Comparison(
        windows=len(keys),
        equal=sum(not found for found in wrong.values()),
        receipts=sum(cell.receipts for cell in got.values()),
        minor=sum(cell.minor for cell in got.values()),
        differences=[difference for found in wrong.values() for difference in found],
    )


def _differences(key: Key, expected: Totals, got: Totals) -> Iterator[Difference]:
    for metric, name in {**METRICS, "units": "units_milli"}.items():
        if getattr(expected, name) != getattr(got, name):
            yield Difference(key[0], instant_text(key[1]), metric, getattr(expected, name), getattr(got, name))


def compare_http(api: str, expected: Mapping[Key, Totals], count: int, seed: int) -> Comparison:
    """`count` seeded random windows asked of the API: half of them with receipts, half anywhere in the same days."""
    keys = _random_windows(expected, count, random.Random(seed))  # a sample, not a secret
    with httpx.Client(base_url=f"http://{api}", timeout=30) as client, ThreadPoolExecutor(_READERS) as readers:
        answers = list(readers.map(lambda key: {metric: _ask(client, metric, key) for metric in METRICS}, keys))
    wrong = [
        Difference(store, instant_text(start), metric, getattr(expected.get((store, start), Totals()), name), answer[metric])
        for (store, start), answer in zip(keys, answers, strict=True)
        for metric, name in METRICS.items()
        if answer[metric] != getattr(expected.get((store, start), Totals()), name)
    ]
    return Comparison(
        windows=len(keys),
        equal=len(keys) - len({(difference.store, difference.start) for difference in wrong}),
        receipts=sum(answer["transactions"] or 0 for answer in answers),
        minor=sum(answer["revenue"] or 0 for answer in answers),
        differences=wrong,
    )


def _random_windows(expected: Mapping[Key, Totals], count: int, chance: random.Random) -> list[Key]:
    filled, stores = sorted(expected), stores_in(expected)
    if not filled:
        raise TallyError("audit: the oracle has no receipts in this scope; widen --days or --store")
    first, last = min(start for _, start in filled), max(start for _, start in filled)
    grid = (last - first) // WINDOW + 1
    anywhere = [(chance.choice(stores), first + chance.randrange(grid) * WINDOW) for _ in range(count // 2)]
    return anywhere + [chance.choice(filled) for _ in range(count - len(anywhere))]


def _ask(client: httpx.Client, metric: str, key: Key) -> int | None:
    """The API's value of one window; None when it says `missing`. Raises TallyError on any other answer than 200."""
    store, start = key
    asked = {"store": store, "from": instant_text(start), "to": instant_text(start + WINDOW), "grain": "15m"}
    answer = client.get(f"/v1/metrics/{metric}", params=asked)
    if answer.status_code != httpx.codes.OK:
        raise TallyError(f"audit: {answer.request.url} answered {answer.status_code}: {answer.text[:200]}")
    row: dict[str, Any] = answer.json()["rows"][0]
    value: int | None = row["value"]
    return value
