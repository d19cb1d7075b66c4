"""The pages of rules as a browser gets them, before any script runs."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from alerting.evaluate.scope.calendar import WindowSpan
from alerting.health.store import StoreHealth
from alerting.rules.rule import AgainstBaseline, Condition, Threshold
from runtime.registry.sources import SALES
from tally.config.settings import Settings
from tally.time.instants import to_millis
from tests.contract.api.alerts.test_rule_health import Brokers, sends
from tests.support.evaluation.evaluating import (
    BUSY,
    DAY,
    SILENT,
    ListedRules,
    Watched,
    in_force,
    sold,
)
from tests.support.evaluation.simulating import page_of, simulations_over
from tests.support.questions.pages import Get, elements, mounted, texts, with_attribute
from tests.support.serving.serving_world import MemoryViews, World, at, flip, sale
from web.dashboard.rules.figure import RuleFigure, describe_rule, rule_chart
from web.dashboard.rules.markup import condition_text, health_text
from web.dashboard.shared.labels import UnitStyle

EVE = "2026-11-23"
HOSTILE = replace(BUSY, rule_id="gone", title="<b>Gone</b> & 'away'", stores=("1", "2"))
OTHER = replace(BUSY, rule_id="lanes", subject="till")
RULES = ListedRules(
    in_force(BUSY, f"{DAY}T08:00"),
    in_force(replace(BUSY, title="Busy"), f"{DAY}T12:00", version=2),
    in_force(SILENT, f"{DAY}T08:00"),
    in_force(HOSTILE, f"{DAY}T08:00", retired=True),
    in_force(OTHER, f"{DAY}T08:00"),
)
ASKED = {"store": "367", "days": "7", "until": DAY}


def test_a_rule_that_cannot_be_evaluated_says_so_with_the_reason() -> None:
    views = MemoryViews(World(rows=[sale("367", f"{DAY}T09:45", 2, 300)]))
    views.world.activity = sends(SALES, "367")
    simulations = simulations_over(views, RULES)
    with mounted(views, Settings(), simulations, watch=Brokers()) as get:
        found = with_attribute(get("/rules/busy", **ASKED), "data-judged")
        silent = with_attribute(get("/rules/silent", **ASKED), "data-judged")

    assert [(one["data-judged"], one.get("data-reason")) for one in found] == [("false", "no_data")]
    assert [one["data-judged"] for one in silent] == ["true"]


def test_the_words_of_a_reason_have_its_begin() -> None:
    health = StoreHealth("367", "no_data", to_millis(at(f"{DAY}T10:00")), is_earlier=True)

    text = health_text(health, ZoneInfo("Europe/Rome"))

    assert "</strong> at the latest since 24 Nov 2026 11:00: nothing has come" in text
    assert "not in force" in health_text(None, ZoneInfo("UTC"))


def by_month(change: str) -> AgainstBaseline:
    return AgainstBaseline("same_weekday_4w", change=change)


def by_hour(sigmas: float) -> AgainstBaseline:
    return AgainstBaseline("hour_of_week", sigmas=sigmas)


@pytest.fixture(scope="module")
def store() -> Iterator[Watched]:
    """A store of which one alert was told and confirmed, and the second never told."""
    with closing(Watched(RULES)) as found:
        found.sends("2026-11-20")
        found.tick(f"{DAY}T07:50")
        for time, count in (("09:00", 7), ("09:15", 1), ("10:00", 6)):
            sold(found, time, count)
            sold(found, time, count, generation=1)
        for day, until in ((EVE, f"{DAY}T00:00"), (DAY, f"{DAY}T11:00")):
            found.publish(flip(day, 1, f"{DAY}T18:00", 0, covered_until=until))
        found.tick(f"{DAY}T18:30")
        first = next(one for one in found.alerts if one.edge == "raise")
        found.views.alerts.told = [one for one in found.alerts if one.window == first.window]
        yield found


@pytest.fixture(scope="module")
def get(store: Watched) -> Iterator[Get]:
    simulations = simulations_over(store.views, RULES, store.settings)
    with mounted(store.views, store.settings, simulations) as function:
        yield function


def test_rules_in_force_are_apart_from_those_that_are_retired(get: Get) -> None:
    answer = get("/rules")
    found = {one["data-rule"]: one["data-retired"] for one in with_attribute(answer, "data-rule")}

    assert found == {"busy": "false", "lanes": "false", "silent": "false", "gone": "true"}
    assert "b" not in [tag for tag, _, _ in elements(answer)]
    assert "/rules/busy" in [one["href"] for one in with_attribute(answer, "href")]


@pytest.mark.parametrize(
    ("condition", "clear", "words"),
    [
        (Threshold(">=", Decimal(5)), Threshold("<=", Decimal(2)), ">= 5; ends at <= 2"),
        (Threshold("<", Decimal("0.10")), None, "< 0.10"),
        (
            by_month("<= -30 %"),
            by_month(">= -20 %"),
            "<= -30 % of same_weekday_4w; ends at >= -20 %",
        ),
        (by_hour(3), by_hour(2.5), "off hour_of_week by 3 deviations; ends within 2.5 deviations"),
        (by_hour(3), None, "off hour_of_week by 3 deviations"),
    ],
)
def test_what_calls_for_an_alert_is_said_in_words(
    condition: Condition, clear: Condition | None, words: str
) -> None:
    rule = replace(BUSY, condition=condition, clear=clear)

    assert condition_text(rule) == f"transactions {words}"


def test_page_of_a_rule_has_its_versions_newest_first(get: Get) -> None:
    answer = get("/rules/busy", **ASKED)

    versions = [one["data-version"] for one in with_attribute(answer, "data-version")]
    assert (answer.status_code, versions) == (200, ["2", "1"])
    links = [one["href"] for one in with_attribute(answer, "href")]
    assert "/v1/rules/busy/versions" in links


def test_episodes_are_beside_what_was_told_of_them(get: Get, store: Watched) -> None:
    answer = get("/rules/busy", **ASKED)

    found = [one["data-complete"] for one in with_attribute(answer, "data-episode")]
    told = [one["data-published"] for one in with_attribute(answer, "data-published")]
    assert (found, told) == (["true", "true"], ["confirmed"])
    assert "7 receipts" in "".join(texts(answer, "td"))
    [alert_id] = {one.alert_id for one in store.views.alerts.told if one.edge == "raise"}
    assert f"/alerts/{alert_id}" in [one["href"] for one in with_attribute(answer, "href")]


def test_what_is_not_served_complete_is_said(get: Get) -> None:
    answer = get("/rules/busy", **ASKED)

    [(of, known)] = [(of, one) for _, of, one in elements(answer) if "data-known" in of]
    assert of["data-state"] == "partial"
    # Of the week five days, and of the last one what is behind 11:00 (UTC).
    assert "quarter hours are not served complete, and raise nothing" in known


@pytest.mark.parametrize("rule_id", ["lanes", "gone"])
def test_rule_that_calls_for_nothing_says_so(get: Get, rule_id: str) -> None:
    answer = get(f"/rules/{rule_id}", **ASKED)

    assert (answer.status_code, "Nothing: it is not judged" in answer.text) == (200, True)


def test_rule_of_silence_has_its_page(get: Get) -> None:
    answer = get("/rules/silent", **ASKED)

    assert (answer.status_code, "sales is silent" in answer.text) == (200, True)


@pytest.mark.parametrize("asked", [{"store": "nobody"}, {"days": "x", "until": "then"}])
def test_address_that_names_nothing_is_answered(get: Get, asked: dict[str, str]) -> None:
    assert get("/rules/busy", **asked).status_code == (404 if "store" in asked else 200)


def test_rule_that_nobody_knows_is_not_found(get: Get) -> None:
    answer = get("/rules/nobody")

    assert (answer.status_code, "There is no rule nobody" in answer.text) == (404, True)


def test_without_tables_the_page_says_so(get: Get, store: Watched) -> None:
    store.views.is_down = True
    try:
        answers = [get("/rules/busy")]
    finally:
        store.views.is_down = False

    assert all("cannot be read right now" in one.text for one in answers)


def drawn(store: Watched, start: str, end: str) -> RuleFigure:
    """What the page draws of the rule between two times of DAY."""
    kept = store.views.alerts.told
    asked = page_of(store, "busy", f"{DAY}T{start}", f"{DAY}T{end}", with_values=True)
    [found] = asyncio.run(asked).stores
    store.views.alerts.told = kept
    span = WindowSpan(to_millis(at(f"{DAY}T{start}")), to_millis(at(f"{DAY}T{end}")))
    return RuleFigure(span, found, ())


def test_chart_has_a_hole_where_nothing_is_served_and_marks_episodes_by_place(
    store: Watched,
) -> None:
    found = drawn(store, "08:45", "11:30")

    options = rule_chart(found, UnitStyle("receipts", "EUR"), ZoneInfo("Europe/Rome"))

    [line, raised] = options["series"]
    assert options["xAxis"]["data"][0] == "Tue 24 Nov 09:45"
    assert line["data"] == [0, 7, 1, 0, 0, 6, 0, 0, 0, None, None]
    areas = [[side["xAxis"] for side in one] for one in line["markArea"]["data"]]
    # Grey from 11:00 on, and red at 09:00 and 10:00.
    assert areas == [[9, 10], [1, 1], [5, 5]]
    assert raised["data"] == [[1, 7], [5, 6]]
    assert line["markLine"]["data"] == [{"yAxis": 5}]
    assert describe_rule(found).startswith("2 episodes by what is served now, 0 raised alerts")
