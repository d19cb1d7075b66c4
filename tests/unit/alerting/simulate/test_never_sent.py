"""A store that should send and never has: silence rules that name it, and the stores file."""

from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from alerting.rules.rule import ClockHours, Rule, RuleVersion, Threshold
from tally.alerts.message import Alert
from tally.config.settings import Settings
from tests.support.evaluation.evaluating import (
    BUSY,
    DAY,
    SILENT,
    ListedRules,
    Watched,
    Watching,
    in_force,
    said,
    sold,
)
from tests.support.evaluation.simulating import clocks, compared, served, simulated
from tests.support.serving.serving_world import flip

NAMED = replace(SILENT, stores=("367",), for_=1)
HOURS = 'opening_hours: {mon-sun: "09:00-18:00"}'


def settings(folder: Path, *fields: str) -> Settings:
    """One store, whose clock is that of UTC, with these fields."""
    file = folder / "stores.yaml"
    lines = "".join(f"  {one}\n" for one in ("tz: UTC", *fields))
    file.write_text(f"'367':\n{lines}", encoding="utf-8")
    return Settings(stores_file=file)


def morning(store: Watched) -> list[Alert]:
    """What is told from 07:50 to 10:02, a tick each quarter hour."""
    told = store.tick(f"{DAY}T07:50")
    for hour in (8, 9):
        for minute in (2, 17, 32, 47):
            told += store.tick(f"{DAY}T{hour:02}:{minute:02}")
    return told + store.tick(f"{DAY}T10:02")


def test_store_that_never_sent_is_silent_from_its_first_open_window(
    begun: Watching, tmp_path: Path
) -> None:
    store = begun(NAMED, settings=settings(tmp_path, HOURS))

    told = morning(store)

    assert said(told) == [("raise", "provisional", "09:00")]
    assert (told[0].store_id, told[0].metric, told[0].value) == ("367", "sales", None)
    # The night is outside of its hours, and the next morning is the same episode.
    assert store.tick(f"{DAY}T23:02") == store.tick("2026-11-25T12:02") == []


def test_it_ends_with_the_first_record_and_goes_on_after_a_restart(
    begun: Watching, tmp_path: Path
) -> None:
    store = begun(NAMED, settings=settings(tmp_path, HOURS))
    [raised] = morning(store)
    store.begin_again()
    sold(store, "10:00", 3)
    store.sends(DAY)

    [ended] = [*store.hint(f"{DAY}T10:00"), *store.tick(f"{DAY}T10:17")]

    assert (ended.edge, ended.of, ended.window.start) == (
        "clear",
        raised.alert_id,
        f"{DAY}T10:00:00Z",
    )
    # From then on it is silent as any other store is.
    assert said(store.tick(f"{DAY}T10:32")) == [("raise", "provisional", "10:15")]


def test_a_generation_confirms_it_also_after_the_store_has_begun_to_send(
    begun: Watching, tmp_path: Path
) -> None:
    store = begun(NAMED, settings=settings(tmp_path, HOURS))
    [raised] = morning(store)
    sold(store, "10:00", 3)
    store.sends(DAY)
    store.tick(f"{DAY}T10:17")

    sold(store, "10:00", 3, generation=1)
    store.publish(flip(DAY, 1, f"{DAY}T10:40", 0, covered_until=f"{DAY}T10:15"))
    told = [one for one in store.tick(f"{DAY}T10:41") if one.alert_id == raised.alert_id]

    assert said(told) == [("raise", "confirmed", "09:00")]


@pytest.mark.parametrize(
    ("rule", "fields"),
    [
        # Nobody names it.
        (replace(NAMED, stores="all"), [HOURS]),
        (replace(NAMED, stores=("406",)), [HOURS]),
        # Nobody says when it is open, or it is closed.
        (NAMED, []),
        (NAMED, ["opening_hours: {mon-fri: closed, sat: closed, sun: closed}"]),
        (NAMED, ['opening_hours: {mon-sun: "12:00-18:00"}']),
        # It opens tomorrow.
        (NAMED, ["changes:", '  2026-11-25: {opening_hours: {mon-sun: "09:00-18:00"}}']),
        (replace(NAMED, within=(ClockHours("mon-sun", "11:00", "12:00"),)), [HOURS]),
        # Of another kind.
        (replace(BUSY, stores=("367",), on_silence="raise"), [HOURS]),
    ],
)
def test_it_is_not_silent_where_nobody_expects_it(
    begun: Watching, tmp_path: Path, rule: Rule, fields: list[str]
) -> None:
    store = begun(rule, settings=settings(tmp_path, *fields))

    assert morning(store) == []


def test_rules_that_do_not_name_it_go_on_saying_nothing(begun: Watching, tmp_path: Path) -> None:
    few = replace(BUSY, rule_id="few", condition=Threshold("<", Decimal(5)))
    others = [
        replace(NAMED, rule_id="all-stores", stores="all"),
        replace(few, clear=None, on_silence="raise"),
    ]
    store = begun(NAMED, *others, settings=settings(tmp_path, HOURS))

    assert [one.rule_id for one in morning(store)] == ["silent"]
    store.publish(flip(DAY, 1, f"{DAY}T10:40", 0, covered_until=f"{DAY}T10:00"))
    assert {one.rule_id for one in store.tick(f"{DAY}T10:41")} == {"silent"}


def test_it_is_not_silent_before_the_rule_that_names_it(begun: Watching, tmp_path: Path) -> None:
    store = begun(NAMED, settings=settings(tmp_path, HOURS), since=f"{DAY}T09:30")

    assert said(morning(store)) == [("raise", "provisional", "09:30")]


def test_a_store_that_has_sent_before_is_evaluated_as_ever(begun: Watching, tmp_path: Path) -> None:
    def told(*fields: str, rule: Rule) -> list[Any]:
        store: Watched = begun(rule, settings=settings(tmp_path, *fields))
        store.sends("2026-11-20")
        sold(store, "08:00", 3)
        return said(morning(store))

    plain = replace(NAMED, stores="all")

    assert told(HOURS, rule=NAMED) == told(rule=NAMED) == told(rule=plain) != []


def test_a_simulation_says_the_same(begun: Watching, tmp_path: Path) -> None:
    store = begun(NAMED, settings=settings(tmp_path, HOURS))
    morning(store)
    served(store, until="12:00")
    store.tick(f"{DAY}T12:30")

    assert [one[:2] for one in clocks(simulated(store, "silent"))] == [("09:00", None)]
    assert compared(store, "silent") == (1, [], 0)


def test_another_version_that_names_it_begins_with_its_own_windows(tmp_path: Path) -> None:
    versions: list[RuleVersion] = [
        in_force(replace(NAMED, stores=("406",)), f"{DAY}T07:00"),
        in_force(NAMED, f"{DAY}T09:15", 2),
    ]
    with closing(Watched(ListedRules(*versions), settings=settings(tmp_path, HOURS))) as store:
        assert said(morning(store)) == [("raise", "provisional", "09:15")]
