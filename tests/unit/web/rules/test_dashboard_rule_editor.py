"""The editor of rules as a browser gets it, before any script runs; typing is in tests/browser."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from alerting.queries.known_rules import check_draft
from alerting.rules.versions import RuleHistory, plan_rule
from tally.config.settings import Settings
from tests.support.evaluation.evaluating import BUSY, DAY, SILENT, in_force
from tests.support.evaluation.simulating import AwayRules, WrittenRules, simulations_over
from tests.support.questions.pages import Get, elements, mounted, texts, with_attribute
from tests.support.questions.report_world import report_world
from tests.support.serving.serving_world import MemoryViews
from web.dashboard.rules import markup

HOSTILE = replace(BUSY, rule_id="gone", title="<b>Gone</b> & 'away'")
RULES = WrittenRules(
    in_force(BUSY, f"{DAY}T08:00"),
    in_force(SILENT, f"{DAY}T08:00"),
    in_force(HOSTILE, f"{DAY}T08:00"),
)
NOTHING = RuleHistory({}, {})


# One application at a time: NiceGUI keeps one for each process.
@pytest.fixture
def get() -> Iterator[Get]:
    views = MemoryViews(report_world())
    with mounted(views, Settings(), simulations_over(views, RULES)) as function:
        yield function


@pytest.fixture
def closed() -> Iterator[Get]:
    views = MemoryViews(report_world())
    with mounted(views, Settings(rule_edits="refuse"), simulations_over(views, RULES)) as function:
        yield function


def test_editor_has_the_text_of_the_newest_version_and_says_that_it_fits(get: Get) -> None:
    answer = get("/rules/busy/edit", store="367")

    [editor] = [one for one in with_attribute(answer, "value") if "rule_id: " in one["value"]]
    assert editor["value"].startswith("rule_id: busy\nmetric: transactions\n")
    assert [one["data-fits"] for one in with_attribute(answer, "data-fits")] == ["true"]
    assert [one["data-change"] for one in with_attribute(answer, "data-change")] == ["same"]
    assert "Apply" in answer.text


def test_text_of_a_rule_is_no_markup(get: Get) -> None:
    answer = get("/rules/gone/edit", store="367")

    assert "b" not in [tag for tag, _, _ in elements(answer)]


def test_new_rule_begins_with_one_that_fits(get: Get) -> None:
    answer = get("/new-rule")

    assert [one["data-fits"] for one in with_attribute(answer, "data-fits")] == ["true"]
    assert "in force from" in "".join(texts(answer, "p"))


def test_a_rule_that_nobody_knows_is_not_found(get: Get) -> None:
    answer = get("/rules/nobody/edit")

    assert (answer.status_code, "There is no rule nobody" in answer.text) == (404, True)


@pytest.mark.parametrize("rule_id", ["edit", "new-rule", "%3Cscript%3E"])
def test_odd_names_are_not_found_and_no_error(get: Get, rule_id: str) -> None:
    assert get(f"/rules/{rule_id}/edit").status_code == 404


def test_pages_of_rules_lead_to_the_editor(get: Get) -> None:
    links = [one["href"] for one in with_attribute(get("/rules/busy", store="367"), "href")]

    assert any(one.startswith("/rules/busy/edit?store=367") for one in links)
    assert "/new-rule" in [one["href"] for one in with_attribute(get("/rules"), "href")]


def test_where_edits_are_refused_the_page_only_checks_and_shows(closed: Get) -> None:
    answer = closed("/rules/busy/edit", store="367")

    assert [one["data-closed"] for one in with_attribute(answer, "data-closed")] == ["true"]
    assert "What it would have published" in answer.text
    assert "Apply" not in [one.get("label") for one in with_attribute(answer, "label")]


def test_without_the_topic_the_page_says_so() -> None:
    views = MemoryViews(report_world())
    with mounted(views, Settings(), simulations_over(views, AwayRules())) as get:
        answers = [get("/rules/busy/edit"), get("/new-rule")]

    assert "cannot be read right now" in answers[0].text
    assert "The rules cannot be read or written right now" in answers[1].text


def test_problems_are_told_with_their_lines_and_no_markup() -> None:
    draft = check_draft("rule_id: busy\n<b>x</b>: 1\nfor: 0", "busy", NOTHING)

    text = markup.draft_text(draft)
    assert "2 problems" in text and "<b>" not in text
    assert "data-line='2'" in text and "<strong>line 3</strong> for: " in text
    assert "1 problem<" in markup.draft_text(check_draft("", None, NOTHING))


def test_changes_are_told_field_by_field() -> None:
    edited = replace(BUSY, for_=3, stores=("1", "2"), unless=("a",))

    text = markup.plan_text(plan_rule(edited, in_force(BUSY, f"{DAY}T08:00")), 0)

    assert "data-change='version'" in text and "1 Jan 1970 00:15 UTC" in text
    assert "<td>stores</td><td>all</td><td>1, 2</td>" in text
    assert "<td>unless</td><td>–</td><td>a</td>" in text
