"""The three pages in Chromium: the numbers are the API's, nothing overflows, nothing fails.

They need the package playwright and a Chromium, neither of which the project installs:
`PYTHONPATH=<where playwright is> .venv/bin/python -m pytest tests/browser`.
"""

import json
from typing import Any

import pytest

from schemas import loader
from tests.browser.opened import served
from tests.support import http
from tests.support.alerts.alert_suite import ENDED
from tests.support.alerts.alerts import told
from tests.support.questions.report_world import PARTIAL, SETTLED
from tests.support.twin.silent_sensors import HALF, SUNDAY

SPAN = "from=2026-11-16&to=2026-11-23"
ASKED = f"days=7&until={SETTLED}"
SILENT, OF_SILENT = f"store=367&days=7&until={HALF}", f"store=367&from=2026-11-15&to={SUNDAY}"
PAGES = (
    f"/?store=367&{ASKED}",
    f"/?store=500&days=7&until={PARTIAL}",
    f"/stores?{ASKED}",
    # One of each kind of series.
    *(
        f"/report/{report}?store=367&{ASKED}"
        for report in ("sales", "outside_traffic_intensity", "visits_by_stay_time", "items")
    ),
    "/alerts?days=7&until=2026-11-23",
    "/alerts?store=406&days=7&until=2026-11-23",
    f"/alerts/{ENDED.alert_id}",
    "/rules",
    "/refused",
    "/refused?store=367",
    f"/rules/busy?store=367&{ASKED}",
    f"/rules/silent?store=367&{ASKED}",
    f"/rules/unlike-last-month?store=367&{ASKED}",
    f"/rules/busy/edit?store=367&{ASKED}",
    "/new-rule",
)


def answered(url: str, path: str) -> Any:
    return http.get(url + path).json()


def shown(tab: Any, selector: str, name: str) -> dict[str, Any]:
    """The values of the elements by their name."""
    tab.wait_for_selector(selector)
    found = tab.locator(selector).evaluate_all("all => all.map(one => ({...one.dataset}))")
    return {one[name]: json.loads(one["value"]) for one in found if "value" in one}


def test_panels_of_a_store_show_the_numbers_of_the_api(tab: Any, address: str) -> None:
    tab.goto(f"{address}/?store=367&{ASKED}")

    assert shown(tab, "[data-report]", "report") == {
        report: answered(address, f"/v1/reports/{report}?store=367&{SPAN}")["value"]
        for report in loader.reports()
    }


def test_page_of_a_report_shows_the_series_of_the_api(tab: Any, address: str) -> None:
    tab.goto(f"{address}/report/sales?store=367&{ASKED}")

    series = answered(address, f"/v1/reports/sales?store=367&{SPAN}")["series"]
    tab.wait_for_selector("tr[data-start]")
    cells = tab.locator("tr[data-start] td[data-value]").evaluate_all(
        "all => all.map(one => JSON.parse(one.dataset.value))"
    )
    assert cells == [one["value"] for one in series]


def test_row_of_a_store_shows_the_numbers_of_the_api(tab: Any, address: str) -> None:
    tab.goto(f"{address}/stores?{ASKED}")

    found = shown(tab, "tr[data-store='367'] td[data-metric]", "metric")
    by_metric = {shape.metric: name for name, shape in loader.reports().items()}
    assert {metric: value for metric, value in found.items() if metric in by_metric} == {
        metric: answered(address, f"/v1/reports/{by_metric[metric]}?store=367&{SPAN}")["value"]
        for metric in found.keys() & by_metric.keys()
    }
    assert len(found) == 6


def test_an_alert_that_is_told_shows_at_once(tab: Any, address: str) -> None:
    number = 100 + tab.viewport_size["width"]
    tab.goto(f"{address}/alerts?days=7&until=2026-11-23")
    tab.wait_for_selector("text=Live: new alerts show at once")
    before = tab.locator("tr[data-open='true']").count()

    http.post(f"{address}/tell/{number}").raise_for_status()

    # Renewed it is every half minute: so soon only the stream brings it.
    tab.wait_for_selector(f"tr[data-alert='{told(number).alert_id}']", timeout=5_000)
    assert tab.locator("tr[data-open='true']").count() == before + 1
    first = tab.locator("tr[data-alert]").first
    assert first.get_attribute("data-alert") == told(number).alert_id


def test_an_alert_leads_to_its_life_and_to_its_store(tab: Any, address: str) -> None:
    tab.goto(f"{address}/alerts?days=7&until=2026-11-23")
    tab.click(f"tr[data-alert='{ENDED.alert_id}'] th a")
    tab.wait_for_selector("text=Published states, and what they were judged by")
    assert tab.locator("tr [data-state]").count() == 2
    tab.click(".t-facts a")
    tab.wait_for_selector("[data-report]")


@pytest.mark.parametrize("path", PAGES)
def test_no_page_is_wider_than_its_window(tab: Any, address: str, path: str) -> None:
    tab.goto(address + path)
    tab.wait_for_selector("[data-state]")

    assert (
        tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        <= 0
    )
    assert tab.locator("h1").count() == 1


def test_words_of_a_condition_are_not_cut_off(tab: Any, address: str) -> None:
    tab.goto(f"{address}/rules")

    cell = tab.locator("tr[data-rule='unlike-last-month'] td").first
    # On a phone what is too wide begins left of its card.
    inside = cell.evaluate(
        """one => {
          const words = one.querySelector("span").getBoundingClientRect();
          const {left, right} = one.getBoundingClientRect();
          return left <= words.left && words.right <= right;
        }"""
    )
    assert inside and "of same_weekday_4w; ends at >= -20 %" in cell.inner_text()


@pytest.mark.parametrize(
    ("below", "state", "words"),
    [("estimate", "estimated", "Estimated"), ("withhold", "withheld", "Withheld")],
)
def test_number_of_silent_sensors_says_so_on_each_page(
    tab: Any, below: str, state: str, words: str
) -> None:
    with served(below) as url:
        tab.goto(f"{url}/?{SILENT}")
        panel = f"[data-report='traffic_trend'][data-state='{state}']"
        tab.wait_for_selector(panel)
        asked = f"/v1/reports/traffic_trend?{OF_SILENT}"
        assert shown(tab, panel, "report") == {"traffic_trend": answered(url, asked)["value"]}
        # Beside those of alerts that were taken back, which have the same colour.
        assert tab.locator(f".t-chip.t-{state}", has_text=words).count()

        tab.goto(f"{url}/report/traffic_trend?{SILENT}")
        tab.wait_for_selector(panel)
        assert "ensors were silent" in tab.locator("dd", has_text="ap-1").inner_text()
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
