"""The reports on the pages: each number is what the API answers, each state is said in words."""

from collections.abc import Iterator
from html import unescape
from typing import Any

import httpx
import pytest

from schemas import loader
from tally.config.settings import Settings
from tests.support.questions.pages import (
    WEEK,
    Get,
    answered,
    compared,
    machine,
    mounted,
    texts,
    with_attribute,
)
from tests.support.questions.report_world import (
    BEFORE_ALL,
    COMPLETE,
    NAME,
    PARTIAL,
    STORES,
    UNKNOWN,
    report_world,
    stores_file,
)
from tests.support.serving.serving_world import MemoryViews

REPORTS = tuple(loader.reports())
DAYS = str(WEEK)


@pytest.fixture(scope="module")
def views() -> MemoryViews:
    return MemoryViews(report_world())


@pytest.fixture(scope="module")
def get(views: MemoryViews, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Get]:
    settings = Settings(stores_file=stores_file(tmp_path_factory.mktemp("stores")))
    with mounted(views, settings) as function:
        yield function


def panels(answer: httpx.Response) -> dict[str, dict[str, str]]:
    return {one["data-report"]: one for one in with_attribute(answer, "data-report")}


@pytest.mark.parametrize("until", [COMPLETE, PARTIAL, BEFORE_ALL, UNKNOWN])
@pytest.mark.parametrize("store", STORES[:2])
def test_every_panel_of_a_store_has_the_numbers_of_the_api(
    get: Get, store: str, until: str
) -> None:
    shown = panels(get("/", store=store, days=DAYS, until=until))

    assert {name: machine(one) for name, one in shown.items()} == {
        name: compared(answered(get, name, store, until)) for name in REPORTS
    }


@pytest.mark.parametrize(
    ("store", "until", "state", "word"),
    [
        ("367", COMPLETE, "complete", "✓ Complete"),
        ("367", PARTIAL, "partial", "◔ Partial"),
        ("406", BEFORE_ALL, "provisional", "◐ Provisional"),
        ("367", UNKNOWN, "unknown", "○ Nothing known"),
    ],
)
def test_state_of_a_panel_is_said_by_word_and_sign(
    get: Get, store: str, until: str, state: str, word: str
) -> None:
    answer = get("/", store=store, days=DAYS, until=until)

    assert {one["data-state"] for one in panels(answer).values()} == {state}
    assert texts(answer, "span").count(word) == len(REPORTS)


def test_what_may_change_before_these_days_does_not_make_them_provisional(get: Get) -> None:
    shown = panels(get("/", store="406", days=DAYS, until=COMPLETE))["sales"]

    assert (shown["data-state"], machine(shown)["complete"]) == ("complete", False)


def test_what_is_not_known_is_a_dash_and_no_zero(get: Get) -> None:
    answer = get("/report/sales", store="367", days=DAYS, until=UNKNOWN)

    assert texts(answer, "div").count("–") == 1
    assert set(texts(answer, "td")) == {"–"}
    assert machine(panels(answer)["sales"])["value"] is None


def test_money_of_two_currencies_is_withheld_with_the_reason(get: Get) -> None:
    answer = get("/", store="500", days=DAYS, until=COMPLETE)

    shown = panels(answer)
    assert (shown["sales"]["data-state"], machine(shown["sales"])) == ("withheld", {})
    assert any("EUR, USD, which do not add up" in text for text in texts(answer, "p"))
    assert shown["traffic_trend"]["data-state"] == "complete"


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("until", [COMPLETE, PARTIAL])
def test_page_of_a_report_has_the_number_and_the_series_of_the_api(
    get: Get, report: str, until: str
) -> None:
    page = get(f"/report/{report}", store="367", days=DAYS, until=until)

    answer = answered(get, report, "367", until)
    assert machine(panels(page)[report]) == compared(answer)
    values = [one for cell in with_attribute(page, "class") for one in numbers_of(cell)]
    by_place = sorted(answer["series"], key=lambda one: (one.get("hour", 0), one.get("weekday", 0)))
    assert values == [
        one[name] for one in by_place for name in ("value", "previous") if name in one
    ]


def test_a_day_of_which_a_part_is_known_is_marked(get: Get) -> None:
    pages = [
        get("/report/sales", store="367", days=DAYS, until=until).text
        for until in (COMPLETE, PARTIAL)
    ]

    assert ["some are missing" in page for page in pages] == [False, True]


def test_name_of_an_article_is_text(get: Get) -> None:
    page = get("/report/items", store="367", days=DAYS, until=COMPLETE)

    assert texts(page, "b") == []
    assert "<b>Brie</b> & 'Co'" in texts(page, "span")


def test_receipts_that_are_gone_are_said_on_panel_and_page(get: Get, views: MemoryViews) -> None:
    asked = {"store": "367", "days": DAYS, "until": COMPLETE}
    kept = [*views.world.receipts]
    views.world.receipts[:] = [one for one in kept if one.happened_at.day != 17]
    pages = [get(path, **asked) for path in ("/", "/report/items")]
    views.world.receipts[:] = kept

    told = "79.96 USD of the value are on no stored receipt, so in no item."
    assert [told in page.text for page in pages] == [True, True]
    assert {panels(page)["items"]["data-state"] for page in pages} == {"partial"}
    assert panels(pages[0])["sales"]["data-state"] == "complete"


def test_a_store_whose_receipts_are_all_gone_has_a_value_and_no_article(
    get: Get, views: MemoryViews
) -> None:
    kept = [*views.world.receipts]
    views.world.receipts.clear()
    page = get("/report/items", store="367", days=DAYS, until=COMPLETE)
    views.world.receipts[:] = kept

    assert machine(panels(page)["items"])["value"] == 63968
    assert texts(page, "td") == []


def numbers_of(cell: dict[str, str]) -> list[Any]:
    return [*machine(cell).values()] if cell["class"] == "t-num" else []


def test_reports_of_devices_say_how_often_they_were_heard(get: Get) -> None:
    asked = {"store": "367", "days": DAYS, "until": COMPLETE}
    answer = answered(get, "average_stay_time", "367", COMPLETE)

    assert answer["beside"]["value"] == 60
    for path in ("/", "/report/average_stay_time"):
        page = get(path, **asked)
        told = {one["data-beside"] for one in with_attribute(page, "data-beside")}
        assert "Reporting interval" in page.text and told == {"60"}


def test_page_of_a_report_says_up_to_when_all_is_counted_and_where_else_it_is(get: Get) -> None:
    page = get("/report/sales", store="367", days=DAYS, until=COMPLETE)

    (through,) = with_attribute(page, "data-through")
    (code,) = texts(page, "code")
    assert through["data-through"] == answered(get, "sales", "367", COMPLETE)["through"]
    assert get(code).json() == answered(get, "sales", "367", COMPLETE)


def test_unknown_report_is_404_and_names_those_that_there_are(get: Get) -> None:
    page = get("/report/weather", store="367")

    addresses = [one["href"] for one in with_attribute(page, "href")]
    assert page.status_code == 404
    assert "There is no report weather" in texts(page, "h2")
    assert [get(one).status_code for one in addresses if one.startswith("/report/")] == [200] * len(
        REPORTS
    )


@pytest.mark.parametrize("path", ["/", "/report/sales"])
def test_unknown_store_is_404(get: Get, path: str) -> None:
    page = get(path, store="999")

    assert (page.status_code, "There is no store 999" in texts(page, "h2")) == (404, True)


@pytest.mark.parametrize("path", ["/", "/report/sales", "/stores"])
@pytest.mark.parametrize(
    "asked", [{"days": "12", "until": "yesterday"}, {"days": "-7", "until": "9999-99-99"}]
)
def test_address_that_names_no_period_shows_the_newest_28_days(
    get: Get, path: str, asked: dict[str, str]
) -> None:
    subtitles = texts(get(path, **asked), "p")

    assert any("Wed 28 Oct 2026 to Tue 24 Nov 2026" in text for text in subtitles)


@pytest.mark.parametrize("path", ["/", "/report/sales", "/stores"])
def test_name_of_a_store_is_text_on_every_page(get: Get, path: str) -> None:
    page = get(path, days=DAYS, until=COMPLETE)

    assert texts(page, "b") == []
    assert any(NAME in text for text in [*texts(page, "h1"), *texts(page, "a")])


@pytest.mark.parametrize(
    ("path", "title", "current"),
    [
        ("/", "(367)", "Store"),
        ("/stores", "All stores", "Overview"),
        ("/report/sales", "Sales", ""),
    ],
)
def test_page_has_one_heading_a_title_and_says_where_one_is(
    get: Get, path: str, title: str, current: str
) -> None:
    page = get(path, store="367")

    (heading,) = texts(page, "h1")
    assert title in heading
    assert f"<title>{heading} · Tally</title>" in unescape(page.text)
    links = [one for one in with_attribute(page, "aria-current") if one["aria-current"] == "page"]
    assert len(links) == 1
    assert current in texts(page, "a")[:2] or not current


@pytest.mark.parametrize("path", ["/", "/report/sales", "/stores"])
def test_unreachable_views_are_said_in_words_on_every_page(
    get: Get, views: MemoryViews, path: str
) -> None:
    views.is_down = True
    page = get(path)
    views.is_down = False

    assert "The numbers cannot be read right now" in texts(page, "h2")
