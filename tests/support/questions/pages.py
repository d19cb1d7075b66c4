"""Pages of the dashboard as a browser gets them, before any script runs."""

import asyncio
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from html import unescape
from html.parser import HTMLParser
from types import ModuleType
from typing import Any
from unittest import mock

import httpx
from fastapi import FastAPI
from nicegui.testing.general import nicegui_reset_globals

from alerting.health.watch import AlertFactSource
from alerting.simulate.service import SimulationService
from tally.config.settings import Settings
from tests.support.serving.serving_world import MemoryViews
from tests.support.stack.letters import MemoryLetters
from web.api.app import create_app
from web.dashboard import page

Get = Callable[..., httpx.Response]
# Days of a page in these tests.
WEEK = 7
# The attributes of an element and its own text.
Element = tuple[str, dict[str, str], str]


@contextmanager
def mounted(
    views: MemoryViews,
    settings: Settings,
    simulations: SimulationService | None = None,
    letters: MemoryLetters | None = None,
    watch: AlertFactSource | None = None,
) -> Iterator[Get]:
    """A function that asks API and pages in this process: get("/", store="367")."""
    # NiceGUI keeps one application for each process: it begins anew. And a test asks for more pages
    # than strangers may.
    with pages_anew(), mock.patch.object(page, "PAGES_A_SECOND", 1e6):
        app = create_app(settings, views, simulations=simulations)
        page.mount(
            app, settings, views, page.LiveSources(None, simulations, letters, fact_source=watch)
        )
        with asyncio.Runner() as runner:
            yield from _asking(app, runner)


@contextmanager
def pages_anew() -> Iterator[None]:
    """NiceGUI begins anew within the block. Behind it modules are what they were: it takes those of
    pages, and the packages above them, out of sys.modules, and they would be imported once more."""
    known: dict[str, ModuleType] = {}
    try:
        with nicegui_reset_globals():
            try:
                yield
            finally:
                known = dict(sys.modules)
    finally:
        for name, module in known.items():
            sys.modules.setdefault(name, module)


def _asking(app: FastAPI, runner: asyncio.Runner) -> Iterator[Get]:
    life = app.router.lifespan_context(app)
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://tally")
    runner.run(life.__aenter__())
    yield lambda path, method="GET", **asked: runner.run(
        client.request(method, path, params=asked or None)
    )
    runner.run(client.aclose())
    runner.run(life.__aexit__(None, None, None))


def elements(answer: httpx.Response) -> list[Element]:
    """Every element of a page's markup in its order: tag, attributes, own text."""
    found = re.search(r"parseElements\(String\.raw`(.*?)`\)", answer.text, re.DOTALL)
    assert found, answer.text
    parts = json.loads(unescape(found.group(1))).values()
    read = _Elements()
    for part in parts:
        props = part.get("props", {})
        named = {name: str(value) for name, value in props.items() if isinstance(value, str)}
        read.found.append((props.get("tag") or part["tag"], named, ""))
        read.feed(str(props.get("innerHTML") or ""))
    return read.found


def with_attribute(answer: httpx.Response, name: str) -> list[dict[str, str]]:
    """The attributes of each element that has this one."""
    return [attributes for _, attributes, _ in elements(answer) if name in attributes]


def texts(answer: httpx.Response, tag: str) -> list[str]:
    """The own text of each element of a tag."""
    return [text for found, _, text in elements(answer) if found == tag]


def machine(attributes: dict[str, str]) -> dict[str, Any]:
    """The numbers that the attributes hold."""
    names = ("value", "previous", "change", "coverage", "complete", "unit")
    return {
        name: json.loads(attributes[f"data-{name}"])
        for name in names
        if f"data-{name}" in attributes
    }


def span(until: str) -> dict[str, str]:
    """The week that ends with a day, as the API is asked for it."""
    last = date.fromisoformat(until)
    first = last - timedelta(days=WEEK - 1)
    return {"from": first.isoformat(), "to": (last + timedelta(days=1)).isoformat()}


def answered(get: Get, report: str, store: str, until: str) -> dict[str, Any]:
    """What the API answers of a report and that week."""
    found: dict[str, Any] = get(f"/v1/reports/{report}", store=store, **span(until)).json()
    return found


def compared(answer: dict[str, Any]) -> dict[str, Any]:
    """What a page tells a machine of a report, by the API's answer."""
    return {
        "value": answer["value"],
        "previous": answer["previous"]["value"],
        "change": answer["change_percent"],
        "coverage": answer["coverage"],
        "complete": answer["complete"],
        "unit": answer["unit"],
    }


class _Elements(HTMLParser):
    """Collects the elements that it is fed."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}, ""))

    def handle_data(self, data: str) -> None:
        tag, attributes, text = self.found[-1]
        self.found[-1] = (tag, attributes, text + data)
