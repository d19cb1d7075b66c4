"""The demo's alerts: two stores fall silent, one of them only because its till lost its line.

No delay is shortened for the demo. A rule evaluates no quarter hour that had begun, or was to begin
within 15 minutes, when it was written; and a generation settles only past windows. So the alerts
appear 30 to 45 minutes after the rule was applied, which is the first step of the demo.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from alerting.rules.topic import RuleReader
from ops.local.demo.live import count_receipts, live_receipt, send_receipt, wait_until_served
from ops.local.demo.waits import Say
from tally.config.settings import Settings
from tally.errors import ApiError, StackError
from tally.time.instants import format_utc, from_millis
from tally.time.windows import WINDOW, window_start
from web.client import ApiClient

RULE_FILE = Path(__file__).parent / "till-silent.yaml"
RULE = "till-silent"
# The first store sells nothing, the receipts of the second arrive late.
SHUT, CUT_OFF = "corner-1", "corner-2"
STORES = (SHUT, CUT_OFF)
SETTLED = {SHUT: "confirmed", CUT_OFF: "retracted"}
# Time for a tick, the evaluator and the projector, with a reserve for a busy machine.
PUBLISH_SECONDS = 180.0
_POLL_SECONDS = 2.0
_MESSAGE_SECONDS = 300.0
# The time of the sale within the quarter hour, at the till that was cut off.
_SOLD_AFTER = timedelta(minutes=7)


class RaisedAlert(NamedTuple):
    """An alert's id and its state in the API."""

    alert_id: str
    state: str


@dataclass(frozen=True)
class DemoAlerts:
    """The steps to the final states of two alerts; `rebuild` serves all that has been sent."""

    settings: Settings
    say: Say
    rebuild: Callable[[], None]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    sleep: Callable[[float], None] = time.sleep

    def run(self, in_force_from: datetime) -> dict[str, RaisedAlert]:
        """Run the steps; returns the alert of each store as it is after the rebuild.

        Raises StackError when an alert does not appear in time, or does not end as expected.
        """
        window = self._open_stores(in_force_from)
        self._wait_until_over(window)
        with ApiClient(self.settings.api, "demo", 30) as api:
            # Any state is accepted: an hourly rebuild may already have run.
            found = self._wait_for_alerts(api, window, dict.fromkeys(STORES))
            for store, alert in found.items():
                self.say(f"{store} is silent: alert {alert.alert_id[:12]}…, {alert.state}")
            self._send_late(api, window)
            self.rebuild()
            return self._wait_for_alerts(api, window, SETTLED)

    def _open_stores(self, in_force_from: datetime) -> datetime:
        """Send one receipt per store; returns the start of the quarter hour of silence."""
        # A store that has never sent a receipt is not silent.
        now = self.now()
        for store in STORES:
            send_receipt(self.settings, live_receipt(now, store))
        window = max(in_force_from, window_start(now) + WINDOW)
        self.say(
            f"{' and '.join(STORES)} have sold once. Rule {RULE} is in force from"
            f" {_clock(in_force_from)}: no quarter hour that had begun when it was written, or was"
            f" about to, is judged by it. In that from {_clock(window)} on they send nothing; at"
            f" {_clock(window + WINDOW)} it is over, and both alerts are published."
        )
        return window

    def _wait_until_over(self, window: datetime) -> None:
        said_at = self.now()
        while (left := window + WINDOW - self.now()) > timedelta(0):
            if (self.now() - said_at).total_seconds() >= _MESSAGE_SECONDS:
                said_at = self.now()
                self.say(f"alerts: {left.total_seconds() / 60:.0f} minutes to go")
            self.sleep(min(_POLL_SECONDS, left.total_seconds()))

    def _send_late(self, api: ApiClient, window: datetime) -> None:
        sold_at = window + _SOLD_AFTER
        send_receipt(self.settings, live_receipt(sold_at, CUT_OFF))

        wait_until_served(
            lambda: bool(count_receipts(api, sold_at, CUT_OFF)),
            lambda: f"the late receipt of {CUT_OFF} is not served",
        )
        self.say(
            f"the line of {CUT_OFF} is back: its receipt of {_clock(sold_at)} has come. Its alert"
            " stays provisional: only a rebuild takes back, or confirms"
        )

    def _wait_for_alerts(
        self, api: ApiClient, window: datetime, expected: dict[str, Any]
    ) -> dict[str, RaisedAlert]:
        """The alerts of the quarter hour by store, once in the wanted states; None is any state."""
        deadline = self.now() + timedelta(seconds=PUBLISH_SECONDS)
        while True:
            found = self._read_alerts(api, window)
            states = {store: alert.state for store, alert in found.items()}
            are_there = (expected[silent] in (None, states[silent]) for silent in found)
            if len(found) == 2 and all(are_there):
                return found
            if self.now() >= deadline:
                raise StackError(
                    f"demo: the alerts of {RULE} stand as {states or 'nothing'} after"
                    f" {PUBLISH_SECONDS:.0f} s; `tally status` and the evaluator's log say why"
                )
            self.sleep(_POLL_SECONDS)

    def _read_alerts(self, api: ApiClient, window: datetime) -> dict[str, RaisedAlert]:
        span = {"from": format_utc(window), "to": format_utc(window + timedelta(days=1))}
        question = {"store": ",".join(STORES), "rule": RULE, "edge": "raise", **span}
        try:
            answer = api.get("/v1/alerts", question)
        except ApiError:
            # The API may be starting, or may not know the stores yet: the caller has the deadline.
            return {}
        return {
            alert["store_id"]: RaisedAlert(alert["alert_id"], alert["state"])
            for alert in answer["alerts"]
            if datetime.fromisoformat(alert["window"]["start"]) == window
        }


def in_force_from(settings: Settings) -> datetime:
    """The instant (UTC) from which the demo's rule applies. Raises StackError without it."""
    newest = RuleReader(settings).read().newest_version(RULE)
    if newest is None:
        raise StackError(f"demo: the rule {RULE} is not there; `tally rules apply {RULE_FILE}`")
    return from_millis(newest.effective_from)


def show_alerts(settings: Settings, found: dict[str, RaisedAlert], say: Say) -> None:
    """Print the outcome of each alert, and where it can be viewed."""
    words = {
        SHUT: "confirmed by the rebuild, for nothing was sold there",
        CUT_OFF: "taken back by the rebuild, for a receipt of that quarter hour had come",
    }
    for store in STORES:
        alert_id = found[store].alert_id
        say(
            f"alert of {store}: {words[store]}:\n  http://{settings.api}/alerts/{alert_id}\n"
            f"  tally alerts show {alert_id}"
        )
    page = f"http://{settings.api}/rules/{RULE}?store={SHUT}"
    say(f"the rule, and what it would have published: {page}")


def how_to_see_alerts() -> str:
    """The text about alerts for a demo that does not keep running."""
    return (
        f"The demo's rule of alerts, {RULE}, tells nothing so soon: it judges from a quarter hour"
        " on that begins at least 15 minutes after it was written, and a rebuild confirms or takes"
        " back what is over. `make demo` in a terminal stays and shows one of each, 30 to 50"
        " minutes after its start; `make demo ARGS='--once --alerts'` waits for them and stops."
    )


def _clock(instant: datetime) -> str:
    return f"{instant:%H:%M} UTC"
