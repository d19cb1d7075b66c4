"""Pages say in words what they withhold of few devices, and have it nowhere as a number."""

from collections.abc import Iterator

import pytest

from tally.config.settings import Settings
from tests.support.questions.pages import Get, mounted, with_attribute
from tests.support.serving.serving_world import MemoryViews
from tests.support.serving.small_cells import DAY, STORE, Counts, world_of

FEW = "too few devices to tell"
DAYS = [f"2026-11-{day}" for day in range(10, 24)]
ASKED = {"store": STORE, "days": "7", "until": DAY}


def page_of(counts: Counts) -> Iterator[Get]:
    views = MemoryViews(world_of({(1, "fixed"): counts, (2, "fixed"): counts}, DAYS))
    with mounted(views, Settings(privacy_smallest_cell=10)) as function:
        yield function


@pytest.fixture(scope="module")
def few() -> Iterator[Get]:
    """Each day six visits."""
    yield from page_of(Counts(visits=3))


def test_a_report_of_few_has_the_state_withheld_and_its_reason(few: Get) -> None:
    answer = few("/report/traffic_trend", **ASKED)

    (figure,) = with_attribute(answer, "data-report")
    assert figure["data-state"] == "withheld"
    assert f"withheld: {FEW}" in answer.text and f"The number is withheld: {FEW}." in answer.text
    values = {held["data-value"] for held in with_attribute(answer, "data-value")}
    assert values == {"null"}


def test_a_day_of_few_is_marked_in_the_table(few: Get) -> None:
    answer = few("/report/traffic_trend", **ASKED)

    marks = [held for held in with_attribute(answer, "title") if held["title"] == FEW]
    # Each day's number, and that of the day seven days before.
    assert len(marks) == 14


def test_the_page_of_a_store_shows_no_number_of_few(few: Get) -> None:
    answer = few("/", **ASKED)

    panels = {held["data-report"]: held for held in with_attribute(answer, "data-report")}
    assert panels["average_stay_time"]["data-state"] == "withheld"
    assert panels["average_stay_time"]["data-value"] == "null"
