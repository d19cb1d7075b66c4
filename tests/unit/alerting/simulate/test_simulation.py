"""A rule simulated over rows in memory: what it would have told, and what nobody knows of it."""

from dataclasses import replace
from decimal import Decimal

import pytest

from alerting.rules.rule import Threshold
from alerting.simulate import service
from tally.time.instants import to_millis
from tests.support.evaluation.evaluating import BUSY, DAY, SILENT, Watching, sold
from tests.support.evaluation.simulating import EVE, clocks, served, simulated
from tests.support.serving.serving_world import at, flip, sale


def test_episode_has_begin_end_value_and_threshold_as_generations_serve_them(
    watched: Watching,
) -> None:
    store = watched(BUSY)
    for time, count in (("09:00", 7), ("09:15", 4), ("09:30", 1)):
        sold(store, time, count, generation=1)
    served(store, until="12:00")

    page = simulated(store)

    assert clocks(page) == [("09:00", "09:30", True)]
    [one] = page.stores[0].episodes
    assert (one.value, one.threshold, one.episode.version) == (7, 5, 1)
    assert (page.stores[0].incomplete_days, page.stores[0].is_certain, page.after) == (
        (),
        True,
        None,
    )


def test_windows_that_no_generation_serves_raise_nothing_and_are_told_as_such(
    watched: Watching,
) -> None:
    store = watched(BUSY)
    sold(store, "09:00", 7, generation=1)
    sold(store, "11:00", 9)
    served(store, until="10:00")

    [found] = simulated(store).stores

    assert [one.episode.ended is not None for one in found.episodes] == [True]
    [day] = found.incomplete_days
    assert (day.day.isoformat(), day.incomplete_windows, day.requested_windows) == (DAY, 8, 16)


def test_an_episode_that_goes_on_beyond_what_is_served_is_not_complete(watched: Watching) -> None:
    store = watched(BUSY)
    sold(store, "09:45", 7, generation=1)
    served(store, until="10:00")

    assert clocks(simulated(store)) == [("09:45", None, False)]


def test_days_that_have_not_begun_are_told_as_not_complete(watched: Watching) -> None:
    store = watched(BUSY)
    served(store, until="10:00")

    [found] = simulated(store, start="2026-12-24T00:00", end="2026-12-26T00:00").stores

    # By the clock of Rome a day more, and windows enough for two.
    assert [one.incomplete_windows for one in found.incomplete_days] == [92, 96, 4]
    assert found.episodes == ()


def test_episode_that_began_before_has_its_own_begin(watched: Watching) -> None:
    store = watched(BUSY)
    sold(store, "08:00", 7, generation=1)
    sold(store, "08:15", 4, generation=1)
    sold(store, "08:30", 4, generation=1)
    served(store, until="12:00")

    assert clocks(simulated(store, start=f"{DAY}T08:30")) == [("08:00", "08:45", True)]
    assert clocks(simulated(store, start=f"{DAY}T08:45")) == []
    # What ends behind the span is open at its end.
    assert clocks(simulated(store, end=f"{DAY}T08:30")) == [("08:00", None, True)]


def test_where_nothing_before_shows_how_the_rule_stood_it_is_said(begun: Watching) -> None:
    store = begun(BUSY)
    store.sends("2026-01-01")
    sold(store, "09:00", 7, generation=1)
    store.publish(flip(DAY, 1, f"{DAY}T18:00", 0, covered_until=f"{DAY}T12:00"))

    # Of the hour before midnight in Rome no generation says anything.
    [found] = simulated(store, start=f"{EVE}T23:00").stores

    assert (found.is_certain, found.since < to_millis(at(f"{EVE}T23:00"))) == (False, True)
    store.publish(flip(EVE, 2, f"{DAY}T18:30", 0))
    assert simulated(store).stores[0].is_certain


def test_back_dated_it_evaluates_by_its_first_version_what_was_before_it(begun: Watching) -> None:
    store = begun(BUSY, since=f"{DAY}T10:00")
    store.sends("2026-11-20")
    for time in ("09:00", "11:00"):
        sold(store, time, 7, generation=1)
    served(store, until="12:00")

    assert [one for one, _, _ in clocks(simulated(store))] == ["09:00", "11:00"]


def test_draft_takes_the_place_of_all_versions(watched: Watching) -> None:
    store = watched(BUSY)
    sold(store, "09:00", 4, generation=1)
    served(store, until="12:00")
    draft = replace(BUSY, condition=Threshold(">=", Decimal(4)))

    assert clocks(simulated(store)) == []
    assert [one for one, _, _ in clocks(simulated(store, draft=draft))] == ["09:00"]


def test_rule_in_unless_holds_back_here_too(begun: Watching) -> None:
    store = begun(
        replace(SILENT, for_=1, rule_id="a-silent"),
        replace(
            BUSY,
            rule_id="calm",
            condition=Threshold("<", Decimal(3)),
            clear=None,
            unless=("a-silent",),
        ),
    )
    store.sends("2026-11-20")
    for time in ("08:00", "08:15", "08:45"):
        sold(store, time, 3, generation=1)
    sold(store, "08:30", 1, generation=1)
    served(store, until="09:15")

    # From 09:00 on nothing came: of that the other rule tells.
    assert [one for one, _, _ in clocks(simulated(store, "calm", end=f"{DAY}T09:15"))] == ["08:30"]
    assert ("09:00", None, True) in clocks(simulated(store, "a-silent", end=f"{DAY}T09:15"))


def test_stores_come_in_pages_whole_and_once(
    watched: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_STORE_DAYS", 1)
    store = watched(BUSY)
    for one in ("367", "406", "500"):
        store.store = one
        store.sends("2026-11-20")
        store.world.rows.append(sale(one, f"{DAY}T09:00", 7, 700, generation=1))
    served(store, until="12:00")
    day = f"{DAY}T00:00", f"{DAY}T23:00"

    pages = [simulated(store, "busy", *day)]
    while after := pages[-1].after:
        pages.append(simulated(store, "busy", *day, after=after))
    found = [(one.store_id, len(one.episodes)) for page in pages for one in page.stores]

    assert found == [("367", 1), ("406", 1), ("500", 1)]
    assert len(pages) == 3
