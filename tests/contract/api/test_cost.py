"""What one question may cost: the event loop is never held for long, whatever zone, grain and year it names."""

import time
from collections.abc import Iterator

import pytest

from serving.api.app import create_app
from tally.settings import Settings
from tests.api_suite import Ask, asking
from tests.serving_example import example
from tests.serving_world import MemoryViews

PATH = "/v1/metrics/transactions"
GRAINS = ("15m", "1h", "1d", "1w")
MOST_SECONDS = 0.1


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    with asking(create_app(Settings(), MemoryViews(example()))) as function:
        yield function


@pytest.mark.parametrize("grain", GRAINS)
@pytest.mark.parametrize(("zone", "year"), [("Africa/Monrovia", 1971), ("Pacific/Kiritimati", 1975), ("Africa/Monrovia", 1972)])
def test_zone_whose_midnight_is_on_no_quarter_hour_is_refused_in_no_time(ask: Ask, zone: str, year: int, grain: str) -> None:
    started = time.perf_counter()
    answer = ask(PATH, store="367", tz=zone, grain=grain, **{"from": f"{year}-01-04", "to": f"{year}-01-18"})
    assert time.perf_counter() - started < 1
    assert (answer.status_code, answer.json()["errors"][0]["field"]) in ((422, "tz"), (422, "from"))
