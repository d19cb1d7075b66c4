"""A simulated rule against what an evaluator has told, over rows in memory."""

from dataclasses import replace
from decimal import Decimal

import pytest
from msgspec import structs

from alerting.alert.ids import WHOLE_STORE
from alerting.rules.rule import Threshold
from tests.support.evaluation.evaluating import (
    BUSY,
    DAY,
    SILENT,
    Watched,
    Watching,
    in_force,
    said,
    sold,
)
from tests.support.evaluation.simulating import DAWN, clock_of, clocks, compared, served, simulated
from tests.support.serving.serving_world import sale

SEEN = {"09:00": 7, "09:15": 4, "09:30": 1, "10:00": 6}
REBUILT = {"09:00": 7, "09:15": 4, "09:30": 8, "10:00": 4}


def changed_live(store: Watched) -> None:
    """A morning that an evaluator sees as it goes, with late receipts, and a rebuild at its end."""
    for time, count in SEEN.items():
        sold(store, time, count)
    for now in ("09:17", "09:32", "09:47", "10:17"):
        store.tick(f"{DAY}T{now}")
    rebuilt(store, REBUILT, 1)
    store.tick(f"{DAY}T18:30")


def rebuilt(store: Watched, counts: dict[str, int], generation: int) -> None:
    """A generation serves so many receipts a quarter hour, up to a quarter past ten."""
    for time, count in counts.items():
        # It has seen more events than the speed layer, whatever they were.
        row = sale(store.store, f"{DAY}T{time}", 20, 100, receipts=count, generation=generation)
        store.world.rows.append(row)
    served(store, until="10:15", generation=generation)


def test_what_was_told_is_what_is_simulated(watched: Watching) -> None:
    store = watched(BUSY, SILENT)
    changed_live(store)

    # Begin and end: from 09:00 to 09:45. Silent it is up to the first receipt, since whenever.
    assert compared(store) == (2, [], 0)
    assert compared(store, "silent").differences == []
    assert [end for _, end, _ in clocks(simulated(store, "silent"))] == ["09:00"]


@pytest.mark.parametrize(
    ("dropped", "said"),
    [("confirmed", "not_told"), ("provisional", "not_told")],
)
def test_planted_difference_is_found(watched: Watching, dropped: str, said: str) -> None:
    store = watched(BUSY)
    changed_live(store)
    raised = [one for one in store.alerts if one.edge == "raise"]
    kept = [one for one in store.alerts if one.state != dropped]
    store.alerts = kept if dropped != "provisional" else [one for one in kept if one not in raised]

    assert said in [one.kind for one in compared(store).differences]


def test_what_is_provisional_is_left_out(watched: Watching) -> None:
    store = watched(BUSY)
    sold(store, "09:00", 7)
    store.tick(f"{DAY}T09:17")

    assert compared(store) == (0, [], 0)


def test_what_another_generation_has_changed_is_told_as_it_is_simulated(watched: Watching) -> None:
    store = watched(BUSY)
    changed_live(store)
    rebuilt(store, {**REBUILT, "09:00": 1, "10:00": 9}, 2)

    assert compared(store).differences != []
    store.tick(f"{DAY}T19:30")
    # The raise moves to 09:30, and ends at 09:45; another one begins at 10:00, and is open.
    assert compared(store) == (3, [], 0)
    assert [start for start, *_ in clocks(simulated(store))] == ["09:30", "10:00"]
    assert ("raise", "confirmed", "10:00") in said(store.alerts)


def test_versions_hold_where_they_were_in_force(begun: Watching) -> None:
    store = begun(BUSY)
    later = replace(BUSY, condition=Threshold(">=", Decimal(9)))
    store.rules = type(store.rules)(
        in_force(BUSY, DAWN), in_force(later, f"{DAY}T10:00", version=2)
    )
    store.begin_again()
    store.sends("2026-11-20")
    store.tick(f"{DAY}T07:50")
    for time in ("09:00", "10:30", "11:00"):
        sold(store, time, 7 if time != "11:00" else 9, generation=1)
    served(store, until="12:00")
    store.tick(f"{DAY}T19:00")

    page = simulated(store)

    told = [(clock_of(one.episode.start), one.threshold) for one in page.stores[0].episodes]
    assert told == [("09:00", 5), ("11:00", 9)]
    assert compared(store).differences == []


def test_second_end_of_one_raise_is_one_too_many(watched: Watching) -> None:
    store = watched(BUSY)
    changed_live(store)
    end = next(one for one in store.alerts if (one.edge, one.state) == ("clear", "confirmed"))
    store.alerts.append(structs.replace(end, alert_id="f" * 64, occurrence=2))

    assert compared(store).differences == [("not_called_for", "clear", WHOLE_STORE)]
