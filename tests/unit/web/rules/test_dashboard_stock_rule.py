"""The page of a rule of stock: a line, a place on the chart and a row for each article."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from zoneinfo import ZoneInfo

import pytest

from alerting.evaluate.scope.calendar import WindowSpan
from alerting.simulate import store as simulation
from tally.time.instants import to_millis
from tests.support.alerts.evaluated_shelves import (
    SOLD_OUT,
    deliver,
    look,
    open_shelves,
    rebuild,
    sell,
)
from tests.support.evaluation.evaluating import DAY, ListedRules, Watched, in_force
from tests.support.evaluation.simulating import page_of, simulations_over
from tests.support.questions.pages import Get, elements, mounted, texts, with_attribute
from tests.support.questions.stock_world import counted, moved
from tests.support.serving.serving_world import at
from web.dashboard.rules.figure import RuleFigure, describe_rule, rule_chart
from web.dashboard.shared.labels import UnitStyle

RULES = ListedRules(in_force(SOLD_OUT, f"{DAY}T08:00"))
ASKED = {"store": "367", "days": "7", "until": DAY}
HOSTILE = "<b>50%|tea</b>"


@pytest.fixture
def store() -> Iterator[Watched]:
    """A store in which an article of an odd name has run out, and the bread within an hour."""
    with closing(Watched(RULES)) as shelves:
        open_shelves(shelves)
        deliver(shelves, "08:45", HOSTILE, (0, counted(1)))
        sell(shelves, "09:01", 1, **{"bread": 20, HOSTILE: 2})
        deliver(shelves, "09:30", "bread", (0, moved(30)))
        look(shelves, "11:02")
        rebuild(shelves, "2026-11-23", DAY)
        look(shelves, "11:04")
        shelves.views.alerts.told = [*shelves.alerts]
        yield shelves


@pytest.fixture
def get(store: Watched) -> Iterator[Get]:
    simulations = simulations_over(store.views, RULES, store.settings)
    with mounted(store.views, store.settings, simulations) as function:
        yield function


def drawn(store: Watched, start: str, end: str) -> RuleFigure:
    """What the page draws of the rule between two times of DAY."""
    told = [*store.alerts]
    asked = page_of(store, "sold-out", f"{DAY}T{start}", f"{DAY}T{end}", with_values=True)
    [found] = asyncio.run(asked).stores
    store.views.alerts.told = told
    span = WindowSpan(to_millis(at(f"{DAY}T{start}")), to_millis(at(f"{DAY}T{end}")))
    return RuleFigure(span, found, ())


def test_each_article_has_a_row_beside_what_was_told_of_it(get: Get) -> None:
    answer = get("/rules/sold-out", **ASKED)

    found = [one["data-subject"] for one in with_attribute(answer, "data-episode")]
    assert found == ["item:%3Cb%3E50%25%7Ctea%3C%2Fb%3E", "item:bread"]
    told = [one["data-published"] for one in with_attribute(answer, "data-published")]
    assert told == ["confirmed", "confirmed"]
    assert "What of it" in "".join(texts(answer, "th"))
    assert "b" not in [tag for tag, _, _ in elements(answer)]
    assert "2 episodes by what is served now of 3 articles" in answer.text


def test_chart_has_a_line_for_each_article_and_the_ground_once(store: Watched) -> None:
    found = drawn(store, "08:30", "10:00")

    options = rule_chart(found, UnitStyle("units", "EUR"), ZoneInfo("Europe/Rome"))

    tea, bread, raised = options["series"]
    assert (tea["name"], tea["data"]) == (
        "item:%3Cb%3E50%25%7Ctea%3C%2Fb%3E",
        [None, 1, -1, -1, -1, -1],
    )
    assert (bread["name"], bread["data"]) == ("item:bread", [20, 20, 0, 0, 0, 30])
    assert tea["lineStyle"]["type"] != bread["lineStyle"]["type"]
    areas = [[side["xAxis"] for side in one] for one in tea["markArea"]["data"]]
    # No grey: of one of them there is a number everywhere.
    assert (areas, "markArea" in bread) == ([[2, 5], [2, 4]], False)
    # Where each is raised, at the height of its own line.
    assert raised["data"] == [[2, -1], [2, 0]]
    assert describe_rule(found).endswith("6 of 6 quarter hours with a number")


def test_articles_without_a_line_are_said_to_be_in_the_table(
    get: Get, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "MAX_SUBJECTS_WITH_VALUES", 1)

    answer = get("/rules/sold-out", **ASKED)

    assert "Of 1 more the table alone has the episodes." in answer.text


def test_where_no_article_ran_out_there_is_no_empty_chart(get: Get, store: Watched) -> None:
    store.world.receipts.clear()
    store.world.rows = [one for one in store.world.rows if one.family.name != "sales"]

    answer = get("/rules/sold-out", **ASKED)

    assert "0 episodes by what is served now of 3 articles" in answer.text
    assert with_attribute(answer, "data-episode") == []
