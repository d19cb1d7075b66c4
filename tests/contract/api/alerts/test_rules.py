"""Rules over HTTP: the list, versions, and what one calls for over days that have been."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from alerting.rules.rule import Threshold, rule_to_fields
from alerting.simulate import service
from runtime.registry.sources import SALES
from serving.storage.tables import Activity
from tally.config.settings import Settings
from tests.support.alerts.alert_memory import MemoryFeed
from tests.support.evaluation.evaluating import BUSY, SILENT, ListedRules, in_force
from tests.support.evaluation.simulating import AwayRules, simulations_over
from tests.support.questions.api_suite import Ask, asking
from tests.support.serving.serving_example import SETTLED
from tests.support.serving.serving_world import MemoryViews, flip, sale
from web.api.app import create_app

EVE = "2017-09-18"
DRAFT = replace(BUSY, condition=Threshold(">=", Decimal(3)))
SPAN = {"from": SETTLED, "to": "2017-09-20"}
RULES = ListedRules(
    in_force(BUSY, "2026-11-20T00:00"),
    in_force(DRAFT, "2026-11-24T08:00", version=2),
    in_force(SILENT, "2026-11-20T00:00"),
)


@pytest.fixture
def views(views: MemoryViews) -> MemoryViews:
    world = views.world
    world.activity = [
        (SALES, Activity(store, date(2017, 9, 1), date(2017, 9, 21)))
        for store in ("367", "406", "500")
    ]
    world.pointers.append((SALES, flip(EVE, 6, "2017-09-22T00:00", pin=100)))
    world.rows.append(sale("406", f"{SETTLED}T10:15", 7, 700, generation=7))
    return views


@pytest.fixture
def ask(views: MemoryViews) -> Iterator[Ask]:
    simulations = simulations_over(views, RULES)
    with asking(create_app(Settings(), views, MemoryFeed(), simulations)) as function:
        yield function


def simulated(ask: Ask, rule_id: str = "busy", **body: Any) -> dict[str, Any]:
    answer = ask(f"/v1/rules/{rule_id}/simulate", body={**SPAN, **body})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_rules_are_listed_in_their_newest_version_by_pages(ask: Ask) -> None:
    first = ask("/v1/rules", limit="1").json()
    second = ask(first["next"]).json()

    [busy], [silent] = first["rules"], second["rules"]
    assert (busy["rule_id"], busy["version"], silent["rule_id"]) == ("busy", 2, "silent")
    assert (busy["effective_from"], busy["retired"]) == ("2026-11-24T08:00:00Z", False)
    assert (busy["rule"], second["next"]) == (rule_to_fields(DRAFT), None)


def test_versions_of_a_rule_ascend(ask: Ask) -> None:
    found = ask("/v1/rules/busy/versions").json()

    assert [one["version"] for one in found["versions"]] == [1, 2]
    assert ask("/v1/rules/nobody/versions").status_code == 404


def test_simulation_tells_episodes_and_what_of_the_days_is_not_complete(ask: Ask) -> None:
    found = simulated(ask)

    assert found["episodes"] == [
        {
            "store_id": "406",
            "subject": "none",
            "rule_version": 1,
            "start": f"{SETTLED}T10:15:00Z",
            "raised": f"{SETTLED}T10:15:00Z",
            "end": f"{SETTLED}T10:30:00Z",
            "value": 7,
            "threshold": 5,
            "complete": True,
        }
    ]
    # Of one quarter hour the speed layer knows more than the generation.
    [day] = found["incomplete"]
    assert (day["store_id"], day["day"], day["windows"], day["of"]) == ("367", SETTLED, 1, 96)
    assert (found["complete"], found["begun_before"], found["next"]) == (False, [], None)
    assert found["stores"] == ["367", "406", "500"]
    assert found["articles"] == 0


def test_draft_of_the_body_is_evaluated_in_the_place_of_the_rule(ask: Ask) -> None:
    found = simulated(ask, rule=rule_to_fields(DRAFT), store=["367,406"])

    assert [one["store_id"] for one in found["episodes"]] == ["367", "406"]
    # The quarter hour in which it would have ended is the one that is not known.
    assert [(one["end"][11:16], one["complete"]) for one in found["episodes"]] == [
        ("10:45", False),
        ("10:30", True),
    ]


def test_draft_needs_no_rule_that_was_applied(ask: Ask) -> None:
    new = rule_to_fields(replace(DRAFT, rule_id="new"))

    assert len(simulated(ask, "new", rule=new)["episodes"]) == 3


def test_pages_hold_stores_whole(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_STORE_DAYS", 1)
    whole, found = ["367", "406", "500"], list[str]()
    address: str | None = "/v1/rules/busy/simulate"
    while address:
        page = ask(address, body=SPAN).json()
        found, address = found + page["stores"], page["next"]
        assert len(page["stores"]) == 1

    assert found == whole


@pytest.mark.parametrize(
    ("rule_id", "body", "status", "said"),
    [
        ("nobody", {}, 404, "there is no rule 'nobody'"),
        ("busy", {"store": ["nobody"]}, 404, "there is no store 'nobody'"),
        ("busy", {"store": []}, 422, "store: expected 1 to"),
        ("busy", {"to": SETTLED}, 422, "from: 2017-09-19 is not before"),
        ("busy", {"from": "2015-01-01"}, 422, "to: at most 400 days"),
        ("busy", {"from": f"{SETTLED}T10:07:00Z"}, 422, "off the 15m grid"),
        ("busy", {"from": "then"}, 422, "from: 'then'"),
        ("busy", {"from": None}, 422, "from: Input should be"),
        ("busy", {"colour": "red"}, 422, "colour: there is no such parameter"),
        ("busy", {"rule": {"rule_id": "busy"}}, 422, "rule: metric: a threshold rule needs one"),
        (
            "busy",
            {"rule": {**rule_to_fields(DRAFT), "rule_id": "x"}},
            422,
            "is not that of the address",
        ),
        ("busy", {"rule": {**rule_to_fields(DRAFT), "evaluate": 7}}, 422, "rule: evaluate"),
        (
            "busy",
            {"rule": {**rule_to_fields(DRAFT), "unless": ["nobody"]}},
            422,
            "rule: unless: there is no rule nobody in force",
        ),
        ("a/b", {}, 404, "Not Found"),
        ("%00", {}, 404, "there is no rule"),
    ],
)
def test_what_cannot_be_simulated_is_refused(
    ask: Ask, rule_id: str, body: dict[str, Any], status: int, said: str
) -> None:
    answer = ask(f"/v1/rules/{rule_id}/simulate", body={**SPAN, **body})

    assert (answer.status_code, said in answer.json()["detail"]) == (status, True), answer.text


def test_rule_of_another_kind_is_refused(ask: Ask) -> None:
    subject = rule_to_fields(replace(BUSY, rule_id="lanes", subject="till"))

    answer = ask("/v1/rules/lanes/simulate", body={**SPAN, "rule": subject})

    assert answer.status_code == 422, answer.text


@pytest.mark.parametrize("body", [[], "text", 7, {}])
def test_body_that_is_none_is_refused_by_its_fields(ask: Ask, body: Any) -> None:
    answer = ask("/v1/rules/busy/simulate", body=body)

    assert (answer.status_code, bool(answer.json()["errors"])) == (422, True)


def test_a_place_of_another_list_is_refused(ask: Ask) -> None:
    assert ask("/v1/rules/busy/simulate", body=SPAN, after="x").status_code == 422


def test_without_topics_or_tables_there_is_no_answer(views: MemoryViews) -> None:
    away = simulations_over(views, AwayRules())
    with asking(create_app(Settings(), views, MemoryFeed(), away)) as ask:
        found = [ask("/v1/rules"), ask("/v1/rules/busy/versions")]
        found.append(ask("/v1/rules/busy/simulate", body=SPAN))
    views.is_down = True
    with asking(create_app(Settings(), views, MemoryFeed(), simulations_over(views, RULES))) as ask:
        found.append(ask("/v1/rules/busy/simulate", body=SPAN))

    assert [one.status_code for one in found] == [503] * 4
