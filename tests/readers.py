"""Readers that ask the API all the time, and remember every value that they were told."""

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import httpx

from tally.instants import instant_text

METRICS = ("transactions", "revenue")
Told = tuple[str, datetime, str, int]


@dataclass
class Readings:
    """What the readers were told: answers counted, distinct (store, window start, metric, value), failures in full."""

    answers: int = 0
    cells: int = 0
    told: set[Told] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)


@contextmanager
def reading(
    api: str, stores: Sequence[str], span: tuple[datetime, datetime], readers: int = 4, pause_seconds: float = 0.0
) -> Iterator[Readings]:
    """Readers that ask for seeded random stores and week-long stretches of the span until the block ends."""
    readings, stop, lock = Readings(), threading.Event(), threading.Lock()

    def read(number: int) -> None:
        chance = random.Random(number)
        with httpx.Client(base_url=f"http://{api}", timeout=30) as client:
            while not stop.wait(pause_seconds):
                _ask_once(client, chance, stores, span, (readings, lock))

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
    chance: random.Random,
    stores: Sequence[str],
    span: tuple[datetime, datetime],
    shared: tuple[Readings, threading.Lock],
) -> None:
    store, metric = chance.choice(stores), chance.choice(METRICS)
    start = span[0] + timedelta(days=chance.randrange(max(1, (span[1] - span[0]).days - 7)))
    asked = {"store": store, "from": instant_text(start), "to": instant_text(start + timedelta(days=7)), "grain": "15m"}
    answer = client.get(f"/v1/metrics/{metric}", params=asked)
    readings, lock = shared
    with lock:
        readings.answers += 1
        # A store that has not sent anything yet is not known: 404 is an honest answer then.
        if answer.status_code == httpx.codes.NOT_FOUND:
            return
        if answer.status_code != httpx.codes.OK:
            readings.failures.append(f"{answer.request.url}: {answer.status_code} {answer.text[:200]}")
            return
        rows = [row for row in answer.json()["rows"] if row["value"] is not None]
        readings.cells += len(rows)
        readings.sources |= {row["source"] for row in rows}
        readings.told |= {(store, datetime.fromisoformat(row["start"]), metric, row["value"]) for row in rows}
