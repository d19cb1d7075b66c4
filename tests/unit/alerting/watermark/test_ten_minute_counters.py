"""A store whose counters report every ten minutes: its days become complete, and a rule of its
visitors fires, as if they reported every quarter hour."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from alerting.rules.rule import Rule, Threshold
from ingest.sources.traffic.contract import CanonicalInterval, shares
from runtime.registry.sources import TRAFFIC
from serving.storage.tables import Activity, ViewRow
from tally.algebra.parts import KeyedSpans, KeyedSum, Value
from tally.config.settings import Settings
from tally.time.instants import parse_instant, to_millis
from tally.time.windows import window_start
from tests.support.evaluation.evaluating import DAY, Watching, said
from tests.support.questions.api_suite import asking
from tests.support.serving.serving_world import MemoryViews, Stored, World, at, flip
from tests.support.sources.canonical import interval
from web.api.app import create_app

STORE, LENGTH = "367", timedelta(minutes=10)
OPENS, CLOSES = at(f"{DAY}T09:00"), at(f"{DAY}T18:00")
STORES = f"""
{STORE}:
  opening_hours: {{mon-sun: "09:00-18:00"}}
  sensors: {{s1: {{device_id: door-1, interval_seconds: 600}}}}
"""
# Persons of each interval; from 12:00 on for an hour there is a crowd.
FEW, MANY = 4, 40
CROWDED = Rule(
    rule_id="crowded",
    metric="visitors_in",
    condition=Threshold(">=", Decimal(50)),
    clear=Threshold("<=", Decimal(20)),
)


def reported() -> Iterator[CanonicalInterval]:
    """The intervals of the day."""
    begins = OPENS
    while begins < CLOSES:
        one = interval(STORE, "door-1", begins, MANY if begins.hour == 12 else FEW)
        key = one.observed_seconds >> KeyedSum.AMOUNT_BITS
        seconds = KeyedSum.encode(key, 600)
        yield replace(one, interval_seconds=600, observed_seconds=seconds)
        begins += LENGTH


def stored(generation: int | None) -> list[Stored]:
    """The rows of the quarter hours that their shares make."""
    windows: dict[datetime, list[CanonicalInterval]] = defaultdict(list)
    for share in (one for whole in reported() for one in shares(whole)):
        windows[window_start(parse_instant(share.happened_at, ""))].append(share)
    found = []
    for start, some in windows.items():
        instants = [to_millis(parse_instant(one.happened_at, "")) for one in some]
        parts: list[Value] = [
            part.fold(instants, [getattr(one, part.name) for one in some]) for part in TRAFFIC.parts
        ]
        excluded = () if generation is None else tuple(part.zero for part in TRAFFIC.parts)
        row = ViewRow(start, (), TRAFFIC.epoch, len(some), tuple(parts), excluded)
        found.append(Stored(TRAFFIC, STORE, row, generation))
    return found


def test_its_days_become_complete(tmp_path: Path) -> None:
    file = tmp_path / "stores.yaml"
    file.write_text(STORES, "utf-8")
    world = World(stored(generation=1))
    days = [date.fromisoformat(DAY) + timedelta(days=more) for more in (-1, 0, 1)]
    world.pointers = [(TRAFFIC, flip(str(one), 1, "2026-11-27T12:00", pin=10)) for one in days]
    world.activity = [(TRAFFIC, Activity(STORE, days[0], days[-1]))]
    span = {"from": DAY, "to": str(days[-1]), "tz": "UTC", "store": STORE}
    with asking(create_app(Settings(stores_file=file), MemoryViews(world))) as ask:
        (day,) = ask("/v1/metrics/visitors_in", **span, grain="1d").json()["rows"]
        quarters: list[dict[str, Any]] = ask("/v1/metrics/visitors_in", **span, grain="15m").json()[
            "rows"
        ]

    persons = sum(one.entries for one in reported())
    assert (day["value"], day["status"], day["complete"]) == (persons, "final", True)
    assert day["coverage"] == 1.0 and not day.get("split") and not day.get("estimated")
    assert sum(one["value"] for one in quarters) == persons
    assert {one["complete"] for one in quarters} == {True}


def test_a_rule_of_its_visitors_fires(watched: Watching) -> None:
    store = watched(CROWDED, since=f"{DAY}T08:00")
    store.sends("2026-11-20", TRAFFIC)
    store.world.rows += stored(generation=None)

    first = store.tick(f"{DAY}T12:17", traffic=1)
    last = store.tick(f"{DAY}T13:17", traffic=1)

    assert said(first) == [("raise", "provisional", "12:00")]
    assert said(last) == [("clear", "provisional", "13:00")]
    (alert,) = first
    # Of forty persons from 12:10 to 12:20 twenty came by a quarter past.
    assert alert.value == 60


@pytest.mark.parametrize("minute", [0, 15, 30, 45])
def test_the_counter_was_there_in_all_of_each_quarter_hour(minute: int) -> None:
    start = datetime(2026, 11, 24, 12, minute, tzinfo=UTC)
    (row,) = [one.row for one in stored(None) if one.row.window_start == start]

    (seconds,) = row.parts[TRAFFIC.part_names.index("observed_seconds")]
    assert KeyedSpans.seconds_by_key([seconds]) == {seconds[0]: 900}
