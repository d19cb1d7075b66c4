"""The demo's two alerts against a stand-in of gateway and API, by a clock that sleeping moves."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from alerting.rules.checks import find_unsupported_field
from alerting.rules.rule_file import parse_rule_yaml
from ops.lag import WaitingSeconds
from ops.local.demo import alerts
from ops.local.demo.alerts import CUT_OFF, RULE, RULE_FILE, SHUT, STORES, DemoAlerts
from ops.local.demo.waits import wait_for_master
from tally.config.settings import Settings
from tally.errors import StackError
from tally.time.instants import format_utc

NOW = datetime(2026, 11, 24, 10, 5, 20, tzinfo=UTC)
HALF, QUARTER = datetime(2026, 11, 24, 10, 30, tzinfo=UTC), timedelta(minutes=15)


class StandIn(BaseHTTPRequestHandler):
    """Takes receipts, and has the alerts that the test gives it."""

    receipts: ClassVar[list[dict[str, Any]]] = []
    listed: ClassVar[list[dict[str, Any]]] = []
    asked: ClassVar[list[dict[str, list[str]]]] = []

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        StandIn.receipts.append(json.loads(self.rfile.read(length)))
        self._answer(202, {"accepted": 1, "rejected": []})

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        if address.path == "/v1/alerts":
            StandIn.asked.append(parse_qs(address.query))
            self._answer(200, {"alerts": StandIn.listed})
        else:
            self._answer(200, {"rows": [{"value": 1}]})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a test's output is its own."""


class Demonstrated:
    """A run of the demo's alerts, whose clock is that of its sleeps."""

    def __init__(self, address: str) -> None:
        self.clock, self.told, self.rebuilt_at = NOW, list[str](), list[datetime]()
        self.window = HALF
        settings = Settings(gateway=address, api=address)
        self.alerts = DemoAlerts(
            settings, self.told.append, self.rebuild, lambda: self.clock, self.sleep
        )

    def sleep(self, seconds: float) -> None:
        self.clock += timedelta(seconds=seconds)
        # A tick behind its end both are told.
        if self.clock >= self.window + QUARTER + timedelta(seconds=10) and not StandIn.listed:
            StandIn.listed += [raised(store, self.window) for store in STORES]

    def rebuild(self) -> None:
        self.rebuilt_at.append(self.clock)
        StandIn.listed[:] = [
            raised(SHUT, self.window, "confirmed"),
            raised(CUT_OFF, self.window, "retracted"),
        ]


def raised(store: str, window: datetime, state: str = "provisional") -> dict[str, Any]:
    start = {"start": format_utc(window)}
    return {"store_id": store, "alert_id": f"{store}-1", "state": state, "window": start}


@pytest.fixture
def run() -> Iterator[Demonstrated]:
    for kept in (StandIn.receipts, StandIn.listed, StandIn.asked):
        kept.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), StandIn) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Demonstrated(f"127.0.0.1:{server.server_address[1]}")
        server.shutdown()


def test_one_is_confirmed_and_one_is_taken_back(run: Demonstrated) -> None:
    found = run.alerts.run(HALF)

    assert {store: one.state for store, one in found.items()} == alerts.SETTLED
    sold = [(one["operation_id"], one["happened_at"]) for one in StandIn.receipts]
    # Both are known stores first; what comes late is of the quarter hour, and of the one alone.
    assert sold[:2] == [(store, format_utc(NOW)) for store in STORES]
    assert sold[2:] == [(CUT_OFF, "2026-11-24T10:37:00.000Z")]


def test_nothing_is_asked_and_nothing_rebuilt_before_the_quarter_hour_is_over(
    run: Demonstrated,
) -> None:
    run.alerts.run(HALF)

    [rebuilt] = run.rebuilt_at
    assert HALF + QUARTER < rebuilt < HALF + QUARTER + timedelta(minutes=1)
    assert StandIn.asked[0]["from"] == ["2026-11-24T10:30:00.000Z"]
    minutes = [one for one in run.told if "minutes to go" in one]
    assert minutes == [f"alerts: {left} minutes to go" for left in (35, 30, 25, 20, 15, 10, 5)]


def test_a_rule_that_is_long_in_force_waits_for_the_next_quarter_hour(run: Demonstrated) -> None:
    run.window = datetime(2026, 11, 24, 10, 15, tzinfo=UTC)

    run.alerts.run(datetime(2026, 11, 24, 9, 0, tzinfo=UTC))

    assert StandIn.receipts[2]["happened_at"] == "2026-11-24T10:22:00.000Z"


def test_an_alert_that_never_comes_is_an_error_that_says_where_to_look(run: Demonstrated) -> None:
    run.window = datetime(2036, 1, 1, tzinfo=UTC)

    with pytest.raises(StackError, match="stand as nothing after 180 s; `tally status`"):
        run.alerts.run(HALF)


def test_a_rebuild_that_confirms_both_is_an_error(
    run: Demonstrated, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [raised(store, HALF, "confirmed") for store in STORES]
    monkeypatch.setattr(run, "rebuild", lambda: StandIn.listed.__setitem__(slice(None), both))
    again = DemoAlerts(
        run.alerts.settings, print, lambda: run.rebuild(), lambda: run.clock, run.sleep
    )

    with pytest.raises(StackError, match="'corner-2': 'confirmed'"):
        again.run(HALF)


def test_alerts_of_other_quarter_hours_are_not_taken_for_it(run: Demonstrated) -> None:
    StandIn.listed += [raised(store, HALF + QUARTER) for store in STORES]

    with pytest.raises(StackError, match="stand as nothing"):
        run.alerts.run(HALF)


def test_closing_words_name_both_and_how_to_look_at_them(run: Demonstrated) -> None:
    found = run.alerts.run(HALF)
    told: list[str] = []

    alerts.show_alerts(Settings(api="127.0.0.1:1"), found, told.append)

    assert "http://127.0.0.1:1/alerts/corner-1-1\n  tally alerts show corner-1-1" in told[0]
    assert "taken back" in told[1] and "tally alerts show corner-2-1" in told[1]
    assert f"/rules/{RULE}?store=corner-1" in told[2]


def test_the_master_is_waited_for_though_a_store_goes_on_sending() -> None:
    # Seconds for which the oldest unread record has waited: it is of before, then of since.
    ages = [900.0, 5.0, 0.4]

    wait_for_master(lambda: WaitingSeconds(9.0, 9.0, ages.pop(0)), 10)

    assert ages == []


def test_a_master_that_stands_still_is_an_error() -> None:
    with pytest.raises(StackError, match="still behind after 0 s"):
        wait_for_master(lambda: WaitingSeconds(0.0, 0.0, 900.0), 0.1)


def test_the_demo_s_rule_fits_and_is_about_its_stores() -> None:
    rule = parse_rule_yaml(RULE_FILE.read_bytes())

    assert (rule.rule_id, find_unsupported_field(rule), rule.stores) == (RULE, None, STORES)
    assert yaml.safe_load(RULE_FILE.read_text("utf-8"))["delay"] == 0
