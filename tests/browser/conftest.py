"""A server of the module, and a tab in each width."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.opened import WIDTHS, served


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the pages are served."""
    with served() as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium, or a skip that says what there is none of."""
    api = pytest.importorskip("playwright.sync_api", reason="the package playwright is not here")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no chromium or google-chrome on the PATH")
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(params=WIDTHS)
def tab(request: pytest.FixtureRequest, browser: Any) -> Iterator[Any]:
    """An empty tab of a width; at the end nothing has failed in it."""
    opened = browser.new_page(viewport={"width": request.param, "height": 844})
    failures: list[str] = []
    opened.on("pageerror", lambda error: failures.append(str(error)))
    opened.on("console", lambda told: failures.append(told.text) if told.type == "error" else None)
    yield opened
    opened.close()
    assert failures == []
