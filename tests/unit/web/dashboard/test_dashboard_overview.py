"""The page of all stores: a row for each, with the numbers that the API answers."""

from collections.abc import Iterator, Sequence
from datetime import date

import pytest

from schemas import loader
from serving.storage.tables import ViewRow
from tally.config.settings import Settings
from tally.errors import ViewsUnreachable
from tally.families.family import Family
from tests.support.questions.pages import (
    WEEK,
    Get,
    answered,
    compared,
    machine,
    mounted,
    span,
    texts,
    with_attribute,
)
from tests.support.questions.report_world import (
    COMPLETE,
    PARTIAL,
    STORES,
    UNKNOWN,
    many_stores,
    report_world,
    stores_file,
)
from tests.support.serving.serving_world import MemoryViews
from web.dashboard.stores import overview

DAYS = str(WEEK)


@pytest.fixture(scope="module")
def views() -> MemoryViews:
    return MemoryViews(report_world())


@pytest.fixture(scope="module")
def get(views: MemoryViews, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Get]:
    settings = Settings(stores_file=stores_file(tmp_path_factory.mktemp("stores")))
    with mounted(views, settings) as function:
        yield function


def row(get: Get, store: str, until: str) -> dict[str, dict[str, str]]:
    """The cells of a store's row by metric."""
    cells = with_attribute(get("/stores", days=DAYS, until=until), "data-metric")
    place = STORES.index(store) * 6
    return {one["data-metric"]: one for one in cells[place : place + 6]}


@pytest.mark.parametrize("until", [COMPLETE, PARTIAL, UNKNOWN])
@pytest.mark.parametrize("store", STORES[:2])
def test_row_of_a_store_has_the_numbers_of_the_api(get: Get, store: str, until: str) -> None:
    shown = {metric: machine(one) for metric, one in row(get, store, until).items()}

    receipts = shown.pop("transactions")
    assert shown == {
        loader.reports()[name].metric: compared(answered(get, name, store, until))
        for name in ("outside_traffic_intensity", "traffic_trend", "average_stay_time")
    } | {
        loader.reports()[name].metric: compared(answered(get, name, store, until))
        for name in ("sales", "productivity_by_hour_of_week")
    }
    asked = {"store": store, "grain": "1d", "tz": "store", **span(until)}
    days = [one["value"] for one in get("/v1/metrics/transactions", **asked).json()["rows"]]
    known = [one for one in days if one is not None]
    assert receipts["value"] == (sum(known) if known else None)


def test_row_of_a_store_with_two_currencies_withholds_its_revenue_alone(get: Get) -> None:
    states = {metric: one["data-state"] for metric, one in row(get, "500", COMPLETE).items()}

    assert {metric for metric, state in states.items() if state == "withheld"} == {"revenue"}


def test_rows_that_are_not_read_yet_say_so_and_have_no_number(
    get: Get, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "FIRST_SECONDS", 0.0)

    answer = get("/stores", days=DAYS, until=COMPLETE)

    assert len(with_attribute(answer, "data-store")) == len(STORES)
    assert with_attribute(answer, "data-value") == []
    assert texts(answer, "span").count("… Being read") == len(STORES)


def test_row_that_cannot_be_read_says_so_beside_the_others(
    get: Get, views: MemoryViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = views.speed_rows

    async def fails_for_one(family: Family, store_id: str, days: Sequence[date]) -> list[ViewRow]:
        if store_id == "406":
            raise ViewsUnreachable("away")
        return await read(family, store_id, days)

    monkeypatch.setattr(views, "speed_rows", fails_for_one)

    answer = get("/stores", days=DAYS, until=COMPLETE)

    assert texts(answer, "span").count("⊘ Cannot be read") == 1
    assert len(with_attribute(answer, "data-metric")) == 6 * (len(STORES) - 1)


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("", ("367", 25, {"next": "2"})),
        ("2", ("1022", 25, {"prev": "", "next": "3"})),
        ("3", ("1047", 10, {"prev": "2"})),
        ("99", ("1047", 10, {"prev": "2"})),
        ("two", ("367", 25, {"next": "2"})),
    ],
)
def test_stores_are_shown_25_at_a_time_in_the_order_of_the_picker(
    get: Get, views: MemoryViews, page: str, expected: tuple[str, int, dict[str, str]]
) -> None:
    full, views.world = views.world, many_stores(60)
    answer = get("/stores", days=DAYS, until=COMPLETE, page=page)
    views.world = full

    stores = [one["data-store"] for one in with_attribute(answer, "data-store")]
    links = {
        one["rel"]: one["href"].partition("&page=")[2] for one in with_attribute(answer, "rel")
    }
    assert (stores[0], len(stores), links) == expected
