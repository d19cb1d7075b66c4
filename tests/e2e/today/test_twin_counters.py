"""Twin stores with counters of 1, 5, 10, 15 and 60 minutes that begin at any second, of which one
is dead for two hours: what batch has is what they counted, and what coverage says is the truth."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from itertools import pairwise
from time import monotonic
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cassandra.cluster import Session

from ingest.senders.twin.people import TwinStore
from ingest.senders.twin.stream import Transport, arrivals
from tests.support import http
from tests.support.clients.gateway_client import GatewayClient
from tests.support.oracles.plain_oracle import Cell, Parts, counted_once, shares_of
from tests.support.stack.loop import Loop
from tests.support.stack.tables import batch_rows
from tests.support.twin.door_counters import DoorCounter, make_intervals

SEED, LOT = 46, 400
# The night on which clocks are set forward lies between the two.
DAYS = (date(2026, 3, 28), date(2026, 3, 29))
LENGTHS = (60, 300, 600, 900, 3600)
OPENS, CLOSES = time(8), time(20)
# When one of them dies, and when somebody has changed its battery.
DIES, RECOVERS = time(11, 4), time(13, 10)


def counters(offsets: Sequence[int], dead: int) -> list[DoorCounter]:
    """One of each length; those of the length `dead` die."""
    both = zip(LENGTHS, offsets, strict=True)
    alive = [DoorCounter(seconds, offset) for seconds, offset in both]
    return [
        replace(one, dies=DIES, recovers=RECOVERS) if one.interval_seconds == dead else one
        for one in alive
    ]


COUNTERS = {
    "aligned": counters([0] * 5, dead=600),
    "late": counters([30, 7, 450, 893, 1234], dead=60),
}


def twin(name: str, zone: str) -> TwinStore:
    """A store with a door for each of its counters."""
    return TwinStore(name, ZoneInfo(zone), passers=400, doors=len(COUNTERS[name]))


STORES = (twin("aligned", "Europe/Bratislava"), twin("late", "Asia/Kathmandu"))
Interval = dict[str, Any]


@dataclass
class CountedDays:
    """What the counters of the stores sent, by when it arrives: late, twice and out of order."""

    loop: Loop
    crossings: Counter[tuple[str, date]] = field(default_factory=Counter)
    sent_at: float = 0.0

    @cached_property
    def sent(self) -> list[bytes]:
        found = []
        for store in STORES:
            made = [
                one
                for day in DAYS
                for one in make_intervals(store, COUNTERS[store.store_id], day, SEED)
            ]
            for one in made:
                told = json.loads(one.body)
                self.crossings[store.store_id, _day(store, told)] += told["in"]
            some = arrivals(made, Transport(disordered=0.1), SEED, store.store_id)
            found += [(one.send_at, one.message.body) for one in some]
        return [body for _, body in sorted(found)]

    @property
    def intervals(self) -> list[Interval]:
        return [json.loads(one) for one in self.sent]


def _day(store: TwinStore, told: Interval) -> date:
    return datetime.fromisoformat(told["happened_at"]).astimezone(store.zone).date()


@pytest.fixture(scope="package")
def counted(loop: Loop, gateway: GatewayClient) -> CountedDays:
    """All of it in both layers."""
    found = CountedDays(loop)
    for begin in range(0, len(found.sent), LOT):
        gateway.post("/v1/events/traffic", found.sent[begin : begin + LOT])
    loop.catch_up()
    found.sent_at = monotonic()
    days = f"{DAYS[0] - timedelta(1)}..{DAYS[-1] + timedelta(1)}"
    loop.json("backfill", "declare", "traffic", "--days", days, "--source", "the twin")
    return found


@pytest.fixture(scope="package")
def rebuilt(loop: Loop, counted: CountedDays) -> CountedDays:
    """After the rebuild that this story shares with others."""
    loop.rebuild_all_since(counted.sent_at)
    return counted


def store_entries() -> dict[str, Any]:
    """What the stores file has to say of them."""
    return {store.store_id: _entry(store) for store in STORES}


def _entry(store: TwinStore) -> dict[str, Any]:
    sensors = {
        f"s-{store.store_id}-{door + 1}": {"device_id": f"door-{door + 1}"}
        for door in range(store.doors)
    }
    hours = {"mon-sun": f"{OPENS:%H:%M}-{CLOSES:%H:%M}"}
    return {"tz": store.zone.key, "sensors": sensors, "opening_hours": hours}


def test_each_interval_was_sent_before_the_rebuild(counted: CountedDays) -> None:
    answer = asked(counted.loop, STORES[0], **{"from": str(DAYS[0]), "to": str(DAYS[-1])})

    assert len(counted.sent) > 1_000
    assert {row["source"] for row in answer} <= {"speed", "missing"}


def test_batch_has_what_was_counted(rebuilt: CountedDays, session: Session) -> None:
    expected = counted_once(share for one in rebuilt.sent for share in shares_of(one))

    stores = {store.store_id for store in STORES}
    held = {cell: row for cell, row in batch_rows(session, "traffic").items() if cell[0] in stores}

    assert differing(held, expected) == []
    planted = max(expected)
    wrong = {**expected, planted: (expected[planted][0] + 1, *expected[planted][1:])}
    assert differing(held, wrong) == [planted]
    print(f"{len(rebuilt.sent):,} intervals sent, {len(expected):,} cells compared, 0 differ")


def differing(held: Mapping[Cell, Parts], expected: Mapping[Cell, Parts]) -> list[Cell]:
    """The cells that are not equal, in their order."""
    cells = sorted({*held, *expected})
    return [cell for cell in cells if held.get(cell) != expected.get(cell)]


def test_days_hold_everybody_who_was_counted_on_them(rebuilt: CountedDays) -> None:
    for store in STORES:
        span = {"from": str(DAYS[0]), "to": str(DAYS[-1] + timedelta(1)), "grain": "1d"}
        rows = asked(rebuilt.loop, store, **span)

        # The stores are closed at night: no interval with persons lies across a border.
        expected = [rebuilt.crossings[store.store_id, day] for day in DAYS]
        assert [row["value"] for row in rows] == expected
        assert not any(row.get("split") for row in rows)


def test_coverage_is_the_time_for_which_the_counters_were_there(rebuilt: CountedDays) -> None:
    compared, incomplete = 0, 0
    for store in STORES:
        for day in DAYS:
            opens, closes = store.hours(day)
            rows = asked(rebuilt.loop, store, **{"from": text(opens), "to": text(closes)})
            truth = [*covered_quarters(rebuilt.intervals, store, opens, closes)]
            told = [(row["coverage"], row.get("worst_coverage", 1.0)) for row in rows]
            assert told == [(share(all_), min(map(share, each))) for all_, each in truth]
            assert [row["complete"] for row in rows] == [
                share(all_) > 0.9 and min(map(share, each)) > 0.9 for all_, each in truth
            ]
            compared += len(rows)
            incomplete += sum(not row["complete"] for row in rows)
            # A planted wrong one is found: a door more that was dead.
            assert told != [(share(all_) - 0.1, 1.0) for all_, _ in truth]
    print(f"{compared} quarter hours compared, 0 differ; {incomplete} of them not complete")
    assert 4 <= incomplete < compared


def text(instant: datetime) -> str:
    """An instant as the API takes it."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def asked(loop: Loop, store: TwinStore, **more: str) -> list[dict[str, Any]]:
    """Rows of visitors, of quarter hours where nothing else is asked."""
    question = {"store": store.store_id, "grain": "15m", "tz": "store"} | more
    address = f"http://{loop.settings.api}/v1/metrics/visitors_in"
    answer = http.get(address, params={**question, "limit": "1000"}, timeout=300)
    found: list[dict[str, Any]] = answer.raise_for_status().json()["rows"]
    return found


Seconds = tuple[int, int]


def covered_quarters(
    intervals: Iterable[Interval], store: TwinStore, opens: datetime, closes: datetime
) -> Iterator[tuple[Seconds, list[Seconds]]]:
    """Of each quarter hour the seconds that were seen and those that were to be seen, of all doors
    together and of each."""
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for one in intervals:
        if one["store_id"] == store.store_id:
            begins = datetime.fromisoformat(one["happened_at"]).timestamp()
            spans[one["device_id"]].append((begins, begins + one["interval_seconds"]))
    starts = [opens.timestamp()]
    while starts[-1] < closes.timestamp():
        starts.append(starts[-1] + 900)
    for start, end in pairwise(starts):
        each = [(_seen(spans[f"door-{n + 1}"], start, end), 900) for n in range(store.doors)]
        yield (sum(seen for seen, _ in each), 900 * store.doors), each


def _seen(spans: Iterable[tuple[float, float]], start: float, end: float) -> int:
    """Seconds of [start, end) that some span holds."""
    seen, reached = 0.0, start
    for first, last in sorted(spans):
        first, last = max(first, reached), min(last, end)
        if first < last:
            seen, reached = seen + last - first, last
    return round(seen)


def share(seconds: Seconds) -> float:
    """With four decimals, rounded down."""
    seen, wanted = seconds
    return 10_000 * seen // wanted / 10_000
