"""What ends an alert besides its numbers: its rule, its store, its article, or a person."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from alerting.rules.rule import InGroup, RuleVersion
from serving.questions import catalogue
from serving.questions.catalogue import Metric
from tally.alerts.message import Alert
from tally.config.settings import Settings
from tally.errors import UnknownName
from tests.support.alerts.evaluated_shelves import SOLD_OUT, look, sell
from tests.support.evaluation.evaluating import (
    BUSY,
    DAY,
    ListedRules,
    Watched,
    Watching,
    in_force,
    said,
    sold,
)
from tests.support.serving.serving_world import flip, sale

SINCE, LATER = f"{DAY}T08:00", f"{DAY}T10:00"
NEXT_DAY = "2026-11-25"
BUSY_HOUR = ("09:00", "09:15", "09:30", "09:45")
QUIET = replace(BUSY, rule_id="quiet", kind="silence", family="sales", metric=None)
QUIET = replace(QUIET, condition=None, clear=None, on_silence="raise")


def ends(alerts: Iterable[Alert]) -> list[tuple[str | None, ...]]:
    """Of each message edge, state, reason, and the window that ended its episode (UTC)."""
    found: list[tuple[str | None, ...]] = []
    for one in alerts:
        ended = one.episode.ended and one.episode.ended[5:16]
        found.append((one.edge, one.state, one.reason, ended))
    return found


def edited(watched: Watching, *versions: RuleVersion, **more: object) -> Watched:
    """A store with an open alert of 09:00, and more versions of its rule."""
    store = watched(BUSY, **more)
    for time in BUSY_HOUR:
        sold(store, time, 7)
    assert said(store.tick(f"{DAY}T09:17")) == [("raise", "provisional", "09:00")]
    store.rules = ListedRules(in_force(BUSY, SINCE), *versions)
    store.begin_again()
    return store


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(in_force(BUSY, LATER, 2, retired=True), id="retired"),
        pytest.param(in_force(replace(BUSY, stores=("9",)), LATER, 2), id="other stores"),
        pytest.param(in_force(replace(BUSY, stores=InGroup("west")), LATER, 2), id="other region"),
        pytest.param(in_force(replace(SOLD_OUT, rule_id="busy"), LATER, 2), id="other kind"),
    ],
)
def test_alert_ends_where_no_version_evaluates_its_store_any_more(
    watched: Watching, version: RuleVersion
) -> None:
    store = edited(watched, version)

    told = store.tick(f"{DAY}T10:17") + store.tick(f"{DAY}T10:32")

    assert ends(told) == [("clear", "provisional", "rule", "11-24T10:00")]
    assert told[0].value is None
    store.publish(flip("2026-11-23", 1, f"{NEXT_DAY}T01:00", 0))
    for time in BUSY_HOUR:
        sold(store, time, 7, generation=1)
    store.publish(flip(DAY, 1, f"{NEXT_DAY}T01:00", 0))
    confirmed = store.tick(f"{NEXT_DAY}T01:01")
    assert ends(confirmed)[-1] == ("clear", "confirmed", "rule", "11-24T10:00")
    assert store.tick(f"{NEXT_DAY}T12:02") == []


def test_late_data_of_the_time_before_the_end_still_changes_the_episode(watched: Watching) -> None:
    store = edited(watched, in_force(BUSY, LATER, 2, retired=True))
    [ended] = store.tick(f"{DAY}T10:17")

    # Of the receipts of 09:30 most were of another store: the episode had ended by then.
    store.world.rows[:] = []
    store.publish(flip("2026-11-23", 1, f"{NEXT_DAY}T01:00", 0))
    for start, events in (("09:00", 7), ("09:15", 7), ("09:30", 1), ("09:45", 7)):
        sold(store, start, events)
        sold(store, start, events, generation=1)
    store.publish(flip(DAY, 1, f"{NEXT_DAY}T01:00", 0))
    told = store.tick(f"{NEXT_DAY}T01:01")

    assert ends(told) == [
        ("raise", "confirmed", None, "11-24T09:30"),
        ("raise", "confirmed", None, "11-24T10:00"),
        ("clear", "confirmed", None, "11-24T09:30"),
        ("clear", "confirmed", "rule", "11-24T10:00"),
    ]
    assert told[2].alert_id == ended.alert_id


def test_alert_of_a_metric_that_is_gone_ends_though_no_rule_of_it_is_evaluated(
    watched: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = watched(BUSY)
    sold(store, "09:00", 7)
    [raised] = store.tick(f"{DAY}T09:17")

    def unknown(metric_id: str) -> Metric:
        raise UnknownName(metric_id, "planted")

    monkeypatch.setattr(catalogue, "metric", unknown)
    store.begin_again()

    told = store.tick(f"{DAY}T10:17") + store.tick(f"{DAY}T10:32") + store.tick(f"{NEXT_DAY}T12:02")

    assert ends(told) == [("clear", "confirmed", "rule", "11-24T10:15")]
    assert told[0].of == raised.alert_id
    store.begin_again()
    assert store.tick(f"{NEXT_DAY}T12:17") == []


def stores_file(folder: Path, *lines: str) -> Settings:
    """Settings with a stores file of store 367."""
    file = folder / "stores.yaml"
    file.write_text(
        "\n".join(["367:", "  tz: Europe/Rome", *(f"  {one}" for one in lines)]), "utf-8"
    )
    return Settings(stores_file=file)


def test_closed_store_is_not_silent_and_its_alerts_end(watched: Watching, tmp_path: Path) -> None:
    settings = stores_file(tmp_path, f"closed: {NEXT_DAY}")
    store = watched(QUIET, settings=settings)
    assert said(store.tick(f"{DAY}T09:17")) == [("raise", "provisional", "08:00")]

    told = store.tick(f"{NEXT_DAY}T01:02") + store.tick(f"{NEXT_DAY}T12:02")

    # Its day begins at midnight in Rome.
    assert ends(told) == [("clear", "confirmed", "closed", "11-24T23:00")]
    assert store.tick("2026-12-24T12:02") == []


def test_end_by_numbers_in_the_last_night_of_a_bar_is_not_told_as_its_closing(
    watched: Watching, tmp_path: Path
) -> None:
    settings = stores_file(tmp_path, 'day_starts: "04:00"', f"closed: {NEXT_DAY}")
    store = watched(QUIET, settings=settings)
    assert said(store.tick(f"{DAY}T09:17")) == [("raise", "provisional", "08:00")]
    # Half past one in Rome: the calendar has the next day, and the bar is still open.
    store.world.rows.append(sale(store.store, f"{NEXT_DAY}T00:30", 1, 100))

    told = store.tick(f"{NEXT_DAY}T00:47")

    assert ends(told) == [("clear", "provisional", None, "11-25T00:30")]


def test_delisted_article_s_alert_ends_and_that_of_another_stays(
    shop: Watching, tmp_path: Path
) -> None:
    settings = stores_file(tmp_path, "delisted:", f"  milk: {NEXT_DAY}")
    shelves = shop(settings=settings)
    sell(shelves, "09:01", 1, milk=10, bread=20)
    look(shelves, "10:02")
    assert sorted(one.subject for one in shelves.alerts) == ["item:bread", "item:milk"]

    told = shelves.tick(f"{NEXT_DAY}T12:02", inventory=1)

    assert [(one.subject, *ends([one])[0]) for one in told] == [
        ("item:milk", "clear", "confirmed", "delisted", "11-24T23:00")
    ]


def test_resolved_alert_ends_and_is_raised_again_only_after_the_condition_was_false(
    watched: Watching,
) -> None:
    store = watched(BUSY)
    for time in ("09:00", "09:15", "09:30", "09:45"):
        sold(store, time, 7)
    [raised] = store.tick(f"{DAY}T09:17")

    told = store.resolve(raised) + store.resolve(raised)

    assert ends(told) == [("clear", "provisional", "resolved", "11-24T09:15")]
    # It is as busy as before, also for another process.
    assert store.tick(f"{DAY}T09:47") == []
    store.begin_again()
    assert store.tick(f"{DAY}T10:02") == []
    sold(store, "10:00", 1)
    sold(store, "10:15", 9)
    assert store.tick(f"{DAY}T10:17") == []
    assert said(store.tick(f"{DAY}T10:32")) == [("raise", "provisional", "10:15")]


def test_resolution_of_what_is_not_open_changes_nothing(watched: Watching) -> None:
    store = watched(BUSY)
    sold(store, "09:00", 7)
    sold(store, "09:15", 1)
    store.tick(f"{DAY}T09:17")
    [raised] = store.alerts
    [cleared] = store.tick(f"{DAY}T09:32")

    unknown = structs.replace(raised, alert_id="0" * 64)
    assert store.resolve(raised) + store.resolve(cleared) + store.resolve(unknown) == []
    assert [one for one in store.state if (one.key or b"").startswith(b"r|")] == []


def test_rebuild_of_the_day_leaves_a_resolved_alert_resolved(watched: Watching) -> None:
    store = watched(BUSY, settings=Settings(default_timezone="UTC"))
    rows = {"09:00": 7, "09:15": 7, "09:30": 7}
    for time, events in rows.items():
        sold(store, time, events)
    [raised] = store.tick(f"{DAY}T09:17")
    store.resolve(raised)
    store.begin_again()
    for time, events in rows.items():
        sold(store, time, events, generation=1)
    # The generation ends while it is busy.
    store.publish(flip(DAY, 1, f"{DAY}T09:46", 0, covered_until=f"{DAY}T09:45"))

    told = store.tick(f"{DAY}T09:47")

    assert ends(told) == [
        ("raise", "confirmed", None, "11-24T09:15"),
        ("clear", "confirmed", "resolved", "11-24T09:15"),
    ]
    assert store.alerts[-1].evidence.read != ()
