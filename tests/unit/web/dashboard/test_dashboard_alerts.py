"""The pages of alerts as a browser gets them, before any script runs."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tally.config.settings import Settings
from tests.support.alerts.alert_suite import END, ENDED, ERASED, OPEN, STORY, TAKEN_BACK
from tests.support.alerts.alerts import told
from tests.support.questions.pages import Get, elements, mounted, texts, with_attribute
from tests.support.questions.report_world import report_world, stores_file
from tests.support.serving.serving_world import MemoryViews

ASKED = {"days": "7", "until": "2026-11-23"}
HOSTILE = told(8, subject="item:<b>Brie</b> & 'Co'", rule_id="<script>")


@pytest.fixture(scope="module")
def views() -> MemoryViews:
    found = MemoryViews(report_world())
    found.alerts.told += [*STORY, HOSTILE]
    return found


@pytest.fixture(scope="module")
def get(views: MemoryViews, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Get]:
    settings = Settings(stores_file=stores_file(tmp_path_factory.mktemp("stores")))
    with mounted(views, settings) as function:
        yield function


def rows(get: Get, **asked: str) -> list[dict[str, str]]:
    return with_attribute(get("/alerts", **{**ASKED, **asked}), "data-alert")


def test_open_ones_come_first_and_every_alert_of_the_days_is_there(get: Get) -> None:
    listed = get("/v1/alerts", store="all", **{"from": "2026-11-17", "to": "2026-11-24"}).json()
    found = rows(get)

    assert {one["data-alert"] for one in found} == {one["alert_id"] for one in listed["alerts"]}
    assert [one["data-open"] for one in found] == ["true"] * 4 + ["false"] * 5
    still = [one["alert_id"] for one in listed["alerts"] if one["open"]]
    assert [one["data-alert"] for one in found][:4] == still


def test_what_is_open_is_there_whatever_the_days(get: Get) -> None:
    found = rows(get, until="2026-01-31")

    assert {one["data-open"] for one in found} == {"true"} and len(found) == 4


def test_of_one_store_alone(get: Get) -> None:
    found = {one["data-alert"] for one in rows(get, store="367")}

    assert OPEN.alert_id in found
    assert found == {one.alert_id for one in (*STORY, HOSTILE) if one.store_id == "367"}


def test_states_are_in_words_and_names_are_no_markup(get: Get) -> None:
    answer = get("/alerts", **ASKED)

    chips = [one["data-state"] for one in with_attribute(answer, "data-state")]
    assert {"provisional", "confirmed", "retracted"} == set(chips)
    assert "b" not in [tag for tag, _, _ in elements(answer)]
    assert "item:<b>Brie</b> & 'Co'" in "".join(texts(answer, "span"))


def test_page_of_one_alert_has_its_life_and_links(get: Get) -> None:
    answer = get(f"/alerts/{ENDED.alert_id}")

    states = [one["data-state"] for one in with_attribute(answer, "data-state")]
    assert (answer.status_code, states) == (200, ["provisional"] * 3)
    links = [one["href"] for one in with_attribute(answer, "href")]
    assert f"/v1/alerts/{ENDED.alert_id}" in links
    assert any(one.startswith("/?store=367&") for one in links)
    assert f"/alerts/{ENDED.alert_id}" in [
        one["href"] for one in with_attribute(get(f"/alerts/{END.alert_id}"), "href")
    ]


@pytest.mark.parametrize("number", ["99", "99 receipts"])
def test_what_was_erased_is_on_no_page(get: Get, number: str) -> None:
    text = get(f"/alerts/{ERASED.alert_id}").text.replace(ERASED.alert_id, "")

    assert f">{number}" not in text


def test_why_it_was_taken_back_is_said(get: Get) -> None:
    answer = get(f"/alerts/{TAKEN_BACK.alert_id}")

    assert "what came later changed the number" in "".join(texts(answer, "dd"))


def test_what_is_overdue_is_said_in_the_list_and_on_its_page(get: Get, views: MemoryViews) -> None:
    old = told(70, raised=datetime.now(UTC) - timedelta(hours=3))
    views.alerts.told.append(old)
    try:
        listed, own = get("/alerts", **ASKED), get(f"/alerts/{old.alert_id}")
    finally:
        views.alerts.told.remove(old)

    assert "overdue" in texts(listed, "span")
    assert "no generation has settled it yet" in texts(own, "dd")


@pytest.mark.parametrize("alert_id", ["x", "0" * 64])
def test_an_alert_that_nobody_knows_is_not_found(get: Get, alert_id: str) -> None:
    answer = get(f"/alerts/{alert_id}")

    assert (answer.status_code, "There is no alert" in answer.text) == (404, True)


def test_a_store_that_nobody_knows_is_not_found(get: Get) -> None:
    assert get("/alerts", store="nobody").status_code == 404


def test_without_tables_the_page_says_so(get: Get, views: MemoryViews) -> None:
    views.is_down = True
    try:
        answers = [get("/alerts"), get(f"/alerts/{OPEN.alert_id}")]
    finally:
        views.is_down = False

    assert all("cannot be read right now" in one.text for one in answers)
