"""A path that nobody has is a plain 404: no page is made for it, and none is kept."""

import time
from collections import Counter
from collections.abc import Iterator

import pytest
from nicegui import Client

from tally.config.settings import Settings
from tests.support.clients.measured_requests import MAX_PROCESSOR_SECONDS
from tests.support.questions.pages import Get, mounted
from tests.support.questions.report_world import report_world
from tests.support.serving.serving_world import MemoryViews
from tests.support.stack.nominal_processor import slowness

MADE_UP = (
    "/metricsx",
    "/healthzx",
    "/readyzz",
    "/openapi.jsonx",
    "/_niceguix",
    "/_nicegui/nothing",
    "/nowhere",
    "/report",
    "/rules/a/b",
    "/v2/stores",
)


@pytest.fixture
def get() -> Iterator[Get]:
    with mounted(MemoryViews(report_world()), Settings()) as function:
        yield function


def test_600_requests_at_made_up_paths_make_no_page(get: Get) -> None:
    get("/nowhere")
    began = time.process_time()
    answers = [get(path) for path in MADE_UP for _ in range(60)]
    spent = time.process_time() - began

    found = Counter((one.status_code, one.headers["content-type"]) for one in answers)
    print(f"{dict(found)}, {len(Client.instances)} pages kept, {spent:.2f} s")
    assert found == {(404, "text/plain; charset=utf-8"): 600}
    assert len(Client.instances) == 0
    assert spent <= MAX_PROCESSOR_SECONDS * slowness()


@pytest.mark.parametrize("path", ["/", "/stores", "/alerts", "/report/sales"])
def test_pages_are_there(get: Get, path: str) -> None:
    answer = get(path)

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert len(Client.instances) == 1


def test_unknown_paths_of_the_api_are_problems(get: Get) -> None:
    answer = get("/v1/nothing")

    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
