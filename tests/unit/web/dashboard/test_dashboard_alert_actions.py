"""The buttons of the alerts' pages, pressed as a browser presses them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import httpx
import pytest
from nicegui import ui
from nicegui.testing.user import User

from alerting.alert.resolution import AlertResolution
from alerting.deliver.state.controls import Acknowledgement, Snooze
from alerting.queries.alerts import ActionRecord
from tally.config.settings import Settings
from tally.errors import SendFailed
from tests.support.alerts.alert_suite import ENDED, LATE, OPEN, STORY
from tests.support.questions.pages import pages_anew
from tests.support.questions.report_world import report_world
from tests.support.serving.serving_world import MemoryViews
from web.api.app import create_app
from web.dashboard import page

INBOX = "/alerts?days=7&until=2026-11-23"
Steps = Callable[[User], Awaitable[None]]


class Shelf(list[ActionRecord]):
    """What was written; `is_away`: the brokers do not take it."""

    is_away = False

    def __call__(self, record: ActionRecord) -> None:
        if self.is_away:
            raise SendFailed("planted")
        self.append(record)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture(autouse=True)
def own_navigation(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The simulated browser puts its own in their place."""
    for name in ("navigate", "notify", "download"):
        monkeypatch.setattr(ui, name, getattr(ui, name))
    yield


@contextmanager
def pages(shelf: Shelf, settings: Settings) -> Iterator[Callable[[Steps], None]]:
    """A function that walks through the pages with a simulated browser."""
    views = MemoryViews(report_world())
    views.alerts.told += STORY
    with pages_anew(), mock.patch.object(page, "PAGES_A_SECOND", 1e6):
        app = create_app(settings, views)
        page.mount(app, settings, views, page.LiveSources(writer=shelf))

        async def walk(steps: Steps) -> None:
            transport = httpx.ASGITransport(app)
            async with (
                app.router.lifespan_context(app),
                httpx.AsyncClient(transport=transport, base_url="http://tally") as client,
            ):
                await steps(User(client))

        yield lambda steps: asyncio.run(walk(steps))


def press(user: User, label: str) -> None:
    user.find(kind=ui.button, content=label).click()


def walk(shelf: Shelf, steps: Steps, settings: Settings | None = None) -> None:
    with pages(shelf, settings or Settings()) as run:
        run(steps)


def test_an_alert_is_acknowledged_on_its_page(shelf: Shelf) -> None:
    async def steps(user: User) -> None:
        await user.open(f"/alerts/{OPEN.alert_id}")
        user.find("Your name").type("anna")
        press(user, "Acknowledge")
        await user.should_see("Acknowledged by anna")

    walk(shelf, steps)

    [record] = shelf
    assert isinstance(record, Acknowledgement)
    assert (record.alert_id, record.store_id, record.by) == (OPEN.alert_id, "367", "anna")


def test_acknowledging_needs_a_name(shelf: Shelf) -> None:
    async def steps(user: User) -> None:
        await user.open(f"/alerts/{OPEN.alert_id}")
        press(user, "Acknowledge")
        await user.should_see("Write your name first")

    walk(shelf, steps)

    assert shelf == []


def test_an_alert_is_silenced_from_the_inbox(shelf: Shelf) -> None:
    async def steps(user: User) -> None:
        await user.open(INBOX)
        for select in user.find(kind=ui.select, marker="alert").elements:
            select.value = LATE.alert_id
        press(user, "Silence")
        await user.should_see("Silenced for 1 hour")

    walk(shelf, steps)

    [record] = shelf
    assert isinstance(record, Snooze) and record.alert_id == LATE.alert_id


def test_resolving_asks_for_a_reason(shelf: Shelf) -> None:
    async def steps(user: User) -> None:
        await user.open(f"/alerts/{OPEN.alert_id}")
        press(user, "Resolve")
        await user.should_see("Why does it need no further attention?")
        press(user, "Resolve it")
        await user.should_see("Write the reason first")
        assert shelf == []
        user.find(kind=ui.textarea).type("repaired")
        press(user, "Resolve it")
        await user.should_see("Resolved")

    walk(shelf, steps)

    [record] = shelf
    assert isinstance(record, AlertResolution)
    assert (record.alert_id, record.because) == (OPEN.alert_id, "repaired")


def test_what_cannot_be_stored_is_said(shelf: Shelf) -> None:
    shelf.is_away = True

    async def steps(user: User) -> None:
        await user.open(f"/alerts/{OPEN.alert_id}")
        press(user, "Silence")
        await user.should_see("cannot be stored right now")

    walk(shelf, steps)

    assert shelf == []


@pytest.mark.parametrize("address", [INBOX, f"/alerts/{OPEN.alert_id}"])
def test_where_edits_are_refused_there_are_no_buttons(shelf: Shelf, address: str) -> None:
    async def steps(user: User) -> None:
        await user.open(address)
        await user.should_see("TALLY_RULE_EDITS")
        await user.should_not_see(kind=ui.button, content="Acknowledge")

    walk(shelf, steps, Settings(rule_edits="refuse"))


def test_an_alert_that_has_ended_has_no_buttons(shelf: Shelf) -> None:
    async def steps(user: User) -> None:
        await user.open(f"/alerts/{ENDED.alert_id}")
        await user.should_not_see(kind=ui.button, content="Acknowledge")

    walk(shelf, steps)
