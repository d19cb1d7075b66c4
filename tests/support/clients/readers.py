"""Readers that ask the API all the time, and remember every value that they were told, in the
order in which they were told it."""

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import httpx

from tally.time.instants import format_utc
from tally.time.windows import WINDOW

METRICS = ("transactions", "revenue")
Told = tuple[str, datetime, str, int]


class Seen(NamedTuple):
    """One cell of an answer.

    `through`: up to then every record of the store was said to be counted.
    """

    store: str
    start: datetime
    metric: str
    value: int | None
    source: str
    through: datetime | None


class Fall(NamedTuple):
    """A cell that one reader was told lower (None: no longer known) than before."""

    store: str
    start: datetime
    metric: str
    before: int
    after: int | None
    source: str


@dataclass(frozen=True)
class Questions:
    """What readers ask: seeded random stores, and stretches of `days` of the span."""

    stores: Sequence[str]
    span: tuple[datetime, datetime]
    days: int = 7

    def one(self, chance: random.Random) -> tuple[str, str, datetime, datetime]:
        """Store, metric, from and to of one question."""
        start = self.span[0] + timedelta(
            days=chance.randrange(max(1, (self.span[1] - self.span[0]).days - self.days + 1))
        )
        return (
            chance.choice(self.stores),
            chance.choice(METRICS),
            start,
            start + timedelta(days=self.days),
        )


@dataclass
class Readings:
    """What the readers were told: answers counted, distinct cells, falls and dishonest words in
    full.

    `unavailable` are answers that were none: 503, or no connection; whoever breaks nothing expects
    none of them.
    """

    answers: int = 0
    cells: int = 0
    seen: set[Seen] = field(default_factory=set)
    falls: list[Fall] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    unavailable: int = 0

    @property
    def sources(self) -> set[str]:
        """Where the values came from."""
        return {cell.source for cell in self.seen if cell.value is not None}


class Reader:
    """One reader with a memory: what it was told last of each cell that was not zero."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        self._last: dict[tuple[str, datetime, str], int] = {}
        self._instants: dict[str, datetime] = {}

    def hear(self, store: str, metric: str, answer: dict[str, Any], days: int) -> None:
        """Remember one answer, in the order of the answers."""
        through = self._instant(answer["through"]) if answer["through"] else None
        rows = answer["rows"]
        self._readings.cells += sum(row["value"] is not None for row in rows)
        self._readings.failures += dishonest_words(
            store, metric, answer, through if days == 1 else None
        )
        for row in rows:
            self._hear_cell(
                Seen(
                    store, self._instant(row["start"]), metric, row["value"], row["source"], through
                )
            )

    def _hear_cell(self, cell: Seen) -> None:
        if cell.value is not None or cell.through is not None:
            self._readings.seen.add(cell)
        key = cell[:3]
        before = self._last.get(key)
        if before is not None and (cell.value is None or cell.value < before):
            self._readings.falls.append(Fall(*key, before, cell.value, cell.source))
        if cell.value:
            self._last[key] = cell.value

    def _instant(self, text: str) -> datetime:
        # Shared objects: a year of answers names the same instants a thousand times.
        if text not in self._instants:
            self._instants[text] = datetime.fromisoformat(text)
        return self._instants[text]


def dishonest_words(
    store: str, metric: str, answer: dict[str, Any], through: datetime | None
) -> list[str]:
    """Rows that claim more than a row of their source may; with `through` of their day also
    those that claim what lay after it."""

    def is_dishonest(row: dict[str, Any]) -> bool:
        is_settled = row["status"] in ("final", "restated")
        beyond = (
            row["complete"]
            and through is not None
            and datetime.fromisoformat(row["start"]) + WINDOW > through
        )
        return (
            (row["complete"] and row["source"] != "batch")
            or (is_settled and not row["complete"])
            or beyond
        )

    told = [
        f"{row['start']} {row['value']} {row['source']} {row['status']} {row['complete']}"
        for row in answer["rows"]
        if is_dishonest(row)
    ]
    return [f"store {store} {metric}, through {answer['through']}: {words}" for words in told]


@contextmanager
def reading(
    api: str, questions: Questions, readers: int = 4, pause_seconds: float = 0.0
) -> Iterator[Readings]:
    """Readers that ask until the block ends."""
    readings, stop, lock = Readings(), threading.Event(), threading.Lock()

    def read(number: int) -> None:
        chance, reader = random.Random(number), Reader(readings)
        with httpx.Client(base_url=f"http://{api}", timeout=300) as client:
            while not stop.wait(pause_seconds):
                _ask_once(client, reader, questions.one(chance), (readings, lock))

    threads = [threading.Thread(target=read, args=(number,)) for number in range(readers)]
    for thread in threads:
        thread.start()
    try:
        yield readings
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _ask_once(
    client: httpx.Client,
    reader: Reader,
    question: tuple[str, str, datetime, datetime],
    shared: tuple[Readings, threading.Lock],
) -> None:
    store, metric, start, end = question
    readings, lock = shared
    asked = {"store": store, "from": format_utc(start), "to": format_utc(end), "grain": "15m"}
    try:
        answer = client.get(f"/v1/metrics/{metric}", params=asked)
    except httpx.TransportError:
        with lock:
            readings.unavailable += 1
        return
    with lock:
        readings.answers += 1
        if answer.status_code == httpx.codes.OK:
            reader.hear(store, metric, answer.json(), (end - start).days)
        elif answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            readings.unavailable += 1
        # A store that has not sent anything yet is not known: 404 is an honest answer then.
        elif answer.status_code != httpx.codes.NOT_FOUND:
            readings.failures.append(
                f"{answer.request.url}: {answer.status_code} {answer.text[:200]}"
            )
