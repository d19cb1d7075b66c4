"""Alerts on a store's charts, and the editor of rules, in Chromium: used as a person uses them."""

from typing import Any

import pytest

from tests.browser.served import MARKED
from tests.support import http
from tests.support.questions.report_world import PARTIAL, SETTLED

ASKED = f"store=367&days=7&until={PARTIAL}"
EDITED = f"/rules/busy/edit?store=367&days=7&until={SETTLED}"
REVENUE = "[aria-label^='Revenue by day'] canvas"
# Where each mark lies in the window, in the order of their places.
PLACES = """canvas => {
  const box = canvas.closest(".nicegui-echart"), chart = getElement(Number(box.id.slice(1))).chart;
  const strip = chart.getOption().series.find(one => one.name === "alerts");
  const {left, top} = box.getBoundingClientRect();
  return strip.markPoint.data.map(one => [
    left + chart.convertToPixel({xAxisIndex: 0}, one.coord[0]), top + one.y,
  ]);
}"""


def places(tab: Any) -> list[list[float]]:
    tab.wait_for_selector(REVENUE)
    tab.locator(REVENUE).scroll_into_view_if_needed()
    tab.wait_for_function(f"canvas => ({PLACES})(document.querySelector(canvas))", arg=REVENUE)
    found: list[list[float]] = tab.locator(REVENUE).evaluate(PLACES)
    return found


def test_a_mark_tells_what_it_is_and_leads_to_its_life(tab: Any, address: str) -> None:
    tab.goto(f"{address}/?{ASKED}")
    # The one of the 18th, the first day.
    x, y = places(tab)[0]

    tab.mouse.move(x - 3, y)
    tab.mouse.move(x, y)
    tab.wait_for_selector("text=9 receipts · limit 6 receipts")
    assert tab.locator("b", has_text="queue-too-long · info").count() == 1
    tab.mouse.click(x, y)
    tab.wait_for_url(f"{address}/alerts/{MARKED[2].alert_id}")
    tab.wait_for_selector("text=Published states, and what they were judged by")


def test_names_in_the_tooltip_of_a_mark_are_no_markup(tab: Any, address: str) -> None:
    tab.goto(f"{address}/?{ASKED}")
    # Behind the one of the 18th and two of the 20th.
    x, y = places(tab)[3]

    tab.mouse.move(x - 3, y)
    tab.mouse.move(x, y)
    tab.wait_for_selector("s:has-text('<b>hostile</b> · warning')")


def test_marked_alerts_are_listed_below_with_their_lives(tab: Any, address: str) -> None:
    tab.goto(f"{address}/?store=367&days=7&until={SETTLED}")

    tab.wait_for_selector("tr[data-alert]")
    found = tab.locator("tr[data-alert]").evaluate_all("all => all.map(one => one.dataset.alert)")
    assert {one.alert_id for one in MARKED} == set(found)


def write(tab: Any, text: str) -> None:
    """The text in place of what the editor has, as a person types it."""
    tab.locator(".cm-content").click()
    tab.keyboard.press("Control+a")
    tab.keyboard.insert_text(text)


def text_of(number: int, **more: str) -> str:
    told = {"rule_id": "busy", "metric": "transactions", **more}
    lines = [f"{name}: {value}" for name, value in told.items()]
    return "\n".join([*lines, f"condition: {{op: '>=', value: {number}}}"])


def test_what_does_not_fit_is_told_at_its_line_while_one_types(tab: Any, address: str) -> None:
    tab.goto(address + EDITED)
    tab.wait_for_selector("[data-fits='true']")

    write(tab, "rule_id: busy\nmetric: transactions\ncondition: {op: '>=', value: many}")

    tab.wait_for_selector("[data-fits='false']")
    assert tab.locator("li[data-line='3']", has_text="line 3 condition.value").count() == 1
    tab.click("text=Apply")
    tab.wait_for_selector("text=Mend what does not fit first.")


def test_a_draft_shows_what_it_would_have_told(tab: Any, address: str) -> None:
    tab.goto(address + EDITED)
    tab.wait_for_selector("[data-fits='true']")
    write(tab, text_of(4))
    tab.wait_for_selector("[data-change='version']")

    tab.click("text=What it would have published")

    tab.wait_for_selector("tr[data-episode]")
    of = {"store": ["367"], "from": "2026-11-16", "to": "2026-11-23"}
    rule = {"rule_id": "busy", "metric": "transactions", "condition": {"op": ">=", "value": 4}}
    answer = http.post(f"{address}/v1/rules/busy/simulate", json={**of, "rule": rule}).json()
    assert tab.locator("tr[data-episode]").count() == len(answer["episodes"]) > 0


@pytest.mark.parametrize("other", [7])
def test_of_two_writers_the_later_one_is_told_what_to_do(
    tab: Any, address: str, other: int
) -> None:
    tab.goto(address + EDITED)
    tab.wait_for_selector("[data-fits='true']")
    mine = tab.viewport_size["width"] % 90
    write(tab, text_of(5, **{"for": str(mine)}))
    tab.wait_for_selector("tr[data-field='for']")
    http.post(f"{address}/apply/{other + mine % 2}").raise_for_status()

    tab.click("text=Apply")
    tab.wait_for_selector("[data-refused]", timeout=10_000)
    assert "Nothing of yours was applied" in tab.locator("[data-refused]").inner_text()
    # What differs from theirs is above; now he has seen it.
    assert tab.locator("tr[data-field='for'] td").nth(1).inner_text() == str(other + mine % 2)
    tab.click("text=Apply")
    tab.wait_for_selector("[data-applied]")

    [*_, newest] = http.get(f"{address}/v1/rules/busy/versions").json()["versions"]
    assert (newest["rule"]["for"], newest["version"]) == (mine, _number(tab))


def test_a_new_rule_is_applied_once(tab: Any, address: str) -> None:
    tab.goto(f"{address}/new-rule")
    tab.wait_for_selector("[data-fits='true']")
    name = f"new-{tab.viewport_size['width']}"
    write(tab, text_of(9).replace("busy", name))
    tab.wait_for_selector("[data-change='new']")

    tab.click("text=Apply")
    tab.wait_for_selector("[data-applied='1.1']")
    tab.click("text=The rule's page")
    tab.wait_for_selector("tr[data-version='1']")
    assert tab.locator("h1").inner_text() == name


def _number(tab: Any) -> int:
    told = tab.locator("[data-applied]").get_attribute("data-applied")
    return int(told.split(".")[0])
