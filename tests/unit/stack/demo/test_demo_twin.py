"""The demo's twin store: open wherever the demo runs, told of when it is not, never left behind."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ingest.senders.twin.people import TwinStore
from ops.local.demo import live
from ops.local.demo.twin import CLOSES, OPENS, STORE, TwinChild, opening_message, write_stores
from runtime.registry.stores import load_stores
from tally.config.settings import Settings
from tally.errors import StackError

NEW_YORK = ZoneInfo("America/New_York")
# Nobody listens there.
NOWHERE = "127.0.0.1:9"


def test_the_demo_s_stores_file_tells_of_a_store_that_is_open_now(tmp_path: Path) -> None:
    file = tmp_path / "fresh" / "stores.yaml"

    write_stores(file)

    entry = load_stores(file)[STORE]
    assert entry.tz is not None and entry.opening_hours is not None
    local = datetime.now(ZoneInfo(entry.tz))
    [span] = entry.opening_hours.spans(local.date())
    assert 11 <= local.hour <= 13
    assert span.opens <= local.hour * 60 + local.minute < span.closes
    assert opening_message(local) is None
    assert {one.device_id for one in entry.sensors.values()} == {"door-1", "door-2"}


def test_a_stores_file_that_is_there_keeps_the_zone_of_its_store(tmp_path: Path) -> None:
    file = tmp_path / "stores.yaml"
    file.write_text(f"{STORE}: {{tz: Asia/Tokyo}}", "utf-8")

    write_stores(file)

    assert load_stores(file)[STORE].tz == "Asia/Tokyo"


def test_its_hours_are_those_of_a_twin_store() -> None:
    twin = TwinStore(STORE)

    assert (twin.opens, twin.closes) == (time(OPENS), time(CLOSES))


@pytest.mark.parametrize(
    ("hour", "told"),
    [
        (7, "twin-1 is closed: it is 07:30 by its clock (America/New_York); it opens today at"),
        (8, None),
        (19, None),
        (20, "twin-1 is closed: it is 20:30 by its clock (America/New_York); it opens tomorrow at"),
    ],
)
def test_a_closed_store_is_told_in_one_line(hour: int, told: str | None) -> None:
    line = opening_message(datetime(2026, 3, 2, hour, 30, tzinfo=NEW_YORK))

    assert line == (told and f"{told} 08:00")


def child(home: Path, told: list[str], gateway: str = NOWHERE) -> TwinChild:
    """A twin store in New York whose API is not there."""
    file = home / "stores.yaml"
    file.write_text(f"{STORE}: {{tz: America/New_York}}", "utf-8")
    (home / "logs").mkdir()
    settings = Settings(home=home, stores_file=file, api=NOWHERE, gateway=gateway)
    environment = {**os.environ, "TALLY_HOME": str(home), "TALLY_GATEWAY": gateway}
    return TwinChild(settings, environment, told.append)


class Taken(BaseHTTPRequestHandler):
    """A gateway that takes everything."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        answer = b'{"accepted": 1, "rejected": []}'
        self.send_response(202)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a test's output is its own."""


@pytest.fixture
def gateway() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Taken) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_it_tells_what_it_has_caught_up_with_and_ends_with_the_demo(
    tmp_path: Path, gateway: str
) -> None:
    told: list[str] = []
    twin = child(tmp_path, told, gateway)

    twin.start()
    twin.stop()
    twin.watch()

    assert told[0] == "$ tally simulate --days 8 --catch-up --live-minutes 4320"
    sent = r"sent [\d,]+ inventory, [\d,]+ pos, [\d,]+ traffic"
    assert re.match(rf"twin-1: caught up with \S+Z: {sent}", told[1])
    assert told[2].startswith("twin-1 sends no more: it ended with -15; see ")


def test_one_that_cannot_begin_is_an_error_with_its_log(tmp_path: Path) -> None:
    twin = child(tmp_path, [])
    (tmp_path / "stores.yaml").write_text("twin-1: {tz: Nowhere}", "utf-8")

    with pytest.raises(StackError, match="ended with 1 before it had caught up; see "):
        twin.start()


def test_before_a_store_has_had_visits_none_are_waited_for(tmp_path: Path) -> None:
    told: list[str] = []

    child(tmp_path, told).wait_until_served(datetime(2026, 3, 2, 12, tzinfo=UTC))

    assert [line.partition(":")[0] for line in told] == ["twin-1 is closed"]


def test_what_is_not_served_fails_after_the_deadline_with_what_was_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "DEADLINE_SECONDS", 0.3)

    with pytest.raises(StackError, match="twin-1 the API answers visitors_in 0, in_store_traffic"):
        child(tmp_path, []).wait_until_served(datetime(2026, 3, 2, 17, tzinfo=UTC))


def test_it_ends_when_who_started_it_is_gone() -> None:
    """Standard input ends with its other side, also when that one is killed."""
    code = "from ingest.senders.twin.stream import pause_or_exit as pause; print(1); pause(60)"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdout.readline()

    process.stdin.close()

    assert process.wait(10) == 0
    process.stdout.close()
