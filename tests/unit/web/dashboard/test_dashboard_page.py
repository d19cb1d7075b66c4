"""The page over HTTP, as a browser gets it before any script runs."""

import re
from collections.abc import Iterator

import pytest

from tally.config.settings import Settings
from tests.support.questions.pages import Get, mounted
from tests.support.serving.serving_example import SETTLED, example
from tests.support.serving.serving_world import MemoryViews, World


@pytest.fixture(scope="module")
def views() -> MemoryViews:
    return MemoryViews(example())


# One for the module: NiceGUI keeps one application for each process.
@pytest.fixture(scope="module")
def get(views: MemoryViews) -> Iterator[Get]:
    with mounted(views, Settings()) as function:
        yield function


def test_page_shows_the_numbers_of_the_chosen_store_and_period(get: Get) -> None:
    text = get("/", store="367", days="7", until=SETTLED).text

    assert all(
        word in text
        for word in (
            "Revenue by day",
            "Receipts by hour of the week",
            "Average basket",
            "26.00",
            "Provisional",
        )
    )


def test_page_loads_nothing_from_elsewhere(get: Get) -> None:
    text = get("/").text

    loaded = re.findall(
        r"""(?:src|href)=["']([^"']+)|@import ["']([^"']+)|url\(([^)]+)\)|"(/_nicegui[^"]+)":""",
        text,
    )
    assert loaded
    assert [
        address
        for found in loaded
        for address in found
        if re.match(r"""["']?(https?:)?//""", address)
    ] == []


def test_its_files_are_served_here(get: Get) -> None:
    addresses = re.findall(r'(?:src|href)="(/_nicegui[^"]+)"', get("/").text)

    assert addresses
    assert {get(address).status_code for address in addresses} == {200}


def test_unknown_store_is_said_in_words(get: Get) -> None:
    assert "There is no store 999" in get("/", store="999").text


def test_name_of_a_store_is_text_and_never_markup(get: Get) -> None:
    text = get("/", store="<script>alert(1)</script>").text

    assert "<script>alert(1)" not in text


def test_unreachable_views_are_said_in_words(get: Get, views: MemoryViews) -> None:
    views.is_down = True
    answer = get("/")
    views.is_down = False

    assert (answer.status_code, "The numbers cannot be read right now" in answer.text) == (
        200,
        True,
    )


def test_no_store_yet_is_said_in_words(get: Get, views: MemoryViews) -> None:
    full, views.world = views.world, World()
    text = get("/").text
    views.world = full

    assert "No store has sent anything yet" in text


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/v1/nothing", 404), ("POST", "/v1/stores", 405)]
)
def test_api_errors_stay_problem_documents_beside_the_page(
    get: Get, method: str, path: str, status: int
) -> None:
    answer = get(path, method)

    assert (answer.status_code, answer.headers["content-type"], answer.json()["status"]) == (
        status,
        "application/problem+json",
        status,
    )
