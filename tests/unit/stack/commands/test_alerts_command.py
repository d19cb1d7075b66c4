"""`tally alerts` over the API of this process's memory, on a real socket."""

import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import uvicorn
from typer.testing import CliRunner

from alerting.stream.place import encode_position, position_at
from ops.cli.alerts.alerts import _print_event
from ops.cli.app import build_app
from tally.alerts.message import encode_alert
from tally.config.settings import Settings
from tally.errors import TallyError
from tests.support import http
from tests.support.alerts.alert_api import alert_api
from tests.support.alerts.alert_memory import MemoryFeed
from tests.support.alerts.alert_suite import ENDED, OPEN, STORY
from tests.support.alerts.alerts import told
from tests.support.serving.serving_example import example
from tests.support.serving.serving_world import MemoryViews
from web.api.app import create_app
from web.client import ApiClient, StreamEvent

BEGIN = position_at(MemoryFeed().topic_id, [0, 0])
DAY = ("--from", "2026-11-23", "--to", "2026-11-24")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """host:port of an API that knows STORY, and whose stream tells two alerts and ends."""
    views, feed = MemoryViews(example()), MemoryFeed()
    views.alerts.told += STORY
    app = create_app(Settings(), views, feed)

    @app.post("/tell")
    async def tell() -> None:
        feed.tell(0, told(21, subject="\x1b[31mred"))
        feed.tell(1, told(22, "406"))

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        # Who connects before the server has come waits for it, and is not refused.
        listener.listen()
        host, port = listener.getsockname()
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        thread = Thread(target=server.run, args=([listener],))
        thread.start()
        yield f"{host}:{port}"
        feed.end()
        server.should_exit = True
        thread.join(20)


@pytest.fixture
def tally(address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("TALLY_API", address)
    monkeypatch.setenv("TALLY_HOME", str(tmp_path))
    return lambda *arguments: CliRunner().invoke(build_app(), ["alerts", *arguments])


def test_without_a_time_what_is_open_is_listed(tally: Any) -> None:
    found = json.loads(tally("list", "--json").stdout)

    assert [one["evidence"]["tick"] for one in found["alerts"]] == [6, 4, 1]
    assert found["more"] is False


def test_list_asks_for_what_is_named_and_says_when_there_is_more(tally: Any) -> None:
    named = ("--store", "367", "--edge", "raise", "--no-late", *DAY)
    found = json.loads(tally("list", "--json", "--most", "2", *named).stdout)

    assert [one["evidence"]["tick"] for one in found["alerts"]] == [5, 3]
    assert found["more"] is True


def test_list_for_people_has_a_line_for_each(tally: Any) -> None:
    shown = tally("list", *DAY)

    assert shown.exit_code == 0 and "8 alerts" in shown.stdout
    assert "few-visitors" in shown.stdout


def test_show_has_the_life_of_one(tally: Any) -> None:
    assert json.loads(tally("show", ENDED.alert_id, "--json").stdout)["alert"]["open"] is False
    shown = tally("show", OPEN.alert_id).stdout
    assert "raise confirmed, judged by tick 1" in shown
    assert "family sales" in shown


def test_what_is_overdue_reads_so_where_it_is_provisional(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = told(1, raised=datetime.now(UTC) - timedelta(hours=3))
    with alert_api([old]) as address:
        monkeypatch.setenv("TALLY_API", address)
        monkeypatch.setenv("TALLY_HOME", str(tmp_path))
        listed = CliRunner().invoke(build_app(), ["alerts", "list"]).stdout
        shown = CliRunner().invoke(build_app(), ["alerts", "show", old.alert_id]).stdout

    assert ("overdue" in listed, "provisional" in listed) == (True, False)
    assert "overdue      True" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "nobody"), "alerts: 404 there is no alert 'nobody'"),
        (("list", "--store", "nobody"), "alerts: 404 there is no store 'nobody'"),
        (("list", "--from", "then"), "alerts: 422 from: 'then'"),
        (("resolve", "nobody", "--because", "x"), "alerts: 404 there is no alert 'nobody'"),
        (("resolve", ENDED.alert_id, "--because", "x"), f"alert {ENDED.alert_id} is not open"),
        (("resolve", OPEN.alert_id, "--because", " "), "resolution: Expected `str` matching"),
    ],
)
def test_what_the_api_refuses_is_one_line(
    tally: Any, arguments: tuple[str, ...], said: str
) -> None:
    ended = tally(*arguments)

    assert isinstance(ended.exception, TallyError) and str(ended.exception).startswith(said)


def test_a_resolution_needs_its_reason(tally: Any) -> None:
    ended = tally("resolve", OPEN.alert_id)

    assert ended.exit_code == 2 and "--because" in ended.output


def test_tail_goes_on_where_the_connection_broke(address: str) -> None:
    http.post(f"http://{address}/tell").raise_for_status()
    with ApiClient(address, "alerts") as api:
        events = api.events("/v1/alerts/stream", begin=encode_position(BEGIN))
        first = next(events)
        # Closed, with the other one under way.
        events.close()
        second = next(api.events("/v1/alerts/stream", begin=first.id))

    ticks = {json.loads(one.content)["evidence"]["tick"] for one in (first, second)}
    assert (ticks, {first.name, second.name}) == ({21, 22}, {"alert"})


def test_control_signs_of_a_subject_do_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _print_event(StreamEvent("alert", encode_alert(told(subject="\x1b[31m")).decode(), "1"), False)

    assert "\x1b" not in capsys.readouterr().out
