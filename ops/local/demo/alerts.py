"""The demo's alerts: two stores fall silent, and of one of them it was only the till's line.

Nothing is made shorter for it. A rule judges no quarter hour that had begun, or was to begin within
15 minutes, when it was written; and what a generation is to settle has to be over. So it is told
half an hour to three quarters after the rule was applied, which the demo does first of all.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from ops.local.demo.live import live_receipt, send_receipt, served_receipts, wait_until
from runtime.rules.topic import RuleReader
from tally.errors import StackError
from tally.instants import from_millis, instant_text
from tally.settings import Settings
from tally.windows import WINDOW, window_start

RULE_FILE = Path(__file__).parent / "till-silent.yaml"
RULE = "till-silent"
# One that sells nothing, and one whose receipts come late.
SHUT, CUT_OFF = "corner-1", "corner-2"
STORES = (SHUT, CUT_OFF)
SETTLED = {SHUT: "confirmed", CUT_OFF: "retracted"}
# Of a tick, the evaluator and the projector together; and of a busy machine.
TELLING_SECONDS = 180.0
_POLL_SECONDS = 2.0
_SAID_SECONDS = 300.0
# When in the quarter hour the till that was cut off has sold.
_SOLD_AFTER = timedelta(minutes=7)


class ToldRaise(NamedTuple):
    """An alert's id and the state in which the API has it."""

    alert_id: str
    state: str


@dataclass(frozen=True)
class DemoAlerts:
    """What is done between the rule and its two ends.

    `rebuild` returns once a generation serves all that has been sent; `sleep` takes seconds.
    """

    settings: Settings
    say: Callable[[str], None]
    rebuild: Callable[[], None]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    sleep: Callable[[float], None] = time.sleep

    def run(self, in_force_from: datetime) -> dict[str, ToldRaise]:
        """By store the alert as the rebuild has left it.

        Raises StackError when one is not told in time, or does not end as it is to.
        """
        with httpx.Client(timeout=30) as client:
            window = self._open_stores(client, in_force_from)
            self._wait_until_over(window)
            # In whatever state: an hourly rebuild may have been quicker than we are.
            found = self._told(client, window, dict.fromkeys(STORES))
            for store, one in found.items():
                self.say(f"{store} is silent: alert {one.alert_id[:12]}…, {one.state}")
            self._send_late(client, window)
            self.rebuild()
            return self._told(client, window, SETTLED)

    def _open_stores(self, client: httpx.Client, in_force_from: datetime) -> datetime:
        """Start of the quarter hour in which both are silent, and the rule looks."""
        # Who has never sent anything is not silent.
        now = self.now()
        for store in STORES:
            send_receipt(client, self.settings, live_receipt(now, store))
        window = max(in_force_from, window_start(now) + WINDOW)
        self.say(
            f"{' and '.join(STORES)} have sold once. Rule {RULE} is in force from"
            f" {_clock(in_force_from)}: no quarter hour that had begun when it was written, or was"
            f" about to, is judged by it. In that from {_clock(window)} on they send nothing; at"
            f" {_clock(window + WINDOW)} it is over, and both alerts are told."
        )
        return window

    def _wait_until_over(self, window: datetime) -> None:
        said_at = self.now()
        while (left := window + WINDOW - self.now()) > timedelta(0):
            if (self.now() - said_at).total_seconds() >= _SAID_SECONDS:
                said_at = self.now()
                self.say(f"alerts: {left.total_seconds() / 60:.0f} minutes to go")
            self.sleep(min(_POLL_SECONDS, left.total_seconds()))

    def _send_late(self, client: httpx.Client, window: datetime) -> None:
        sold_at = window + _SOLD_AFTER
        send_receipt(client, self.settings, live_receipt(sold_at, CUT_OFF))

        def is_served() -> bool:
            return bool(served_receipts(client, self.settings, sold_at, CUT_OFF))

        wait_until(is_served, lambda: f"the late receipt of {CUT_OFF} is not served")
        self.say(
            f"the line of {CUT_OFF} is back: its receipt of {_clock(sold_at)} has come. Its alert"
            " stays provisional: only a rebuild takes back, or confirms"
        )

    def _told(
        self, client: httpx.Client, window: datetime, wanted: dict[str, Any]
    ) -> dict[str, ToldRaise]:
        """The alerts of the quarter hour by store, once they stand as wanted; None is any state."""
        deadline = self.now() + timedelta(seconds=TELLING_SECONDS)
        while True:
            found = self._raised(client, window)
            states = {store: one.state for store, one in found.items()}
            are_there = (wanted[one] in (None, states[one]) for one in found)
            if len(found) == 2 and all(are_there):
                return found
            if self.now() >= deadline:
                raise StackError(
                    f"demo: the alerts of {RULE} stand as {states or 'nothing'} after"
                    f" {TELLING_SECONDS:.0f} s; `tally status` and the evaluator's log say why"
                )
            self.sleep(_POLL_SECONDS)

    def _raised(self, client: httpx.Client, window: datetime) -> dict[str, ToldRaise]:
        """By store the alert of the quarter hour, as far as the API has it."""
        asked = {
            "store": ",".join(STORES),
            "rule": RULE,
            "edge": "raise",
            "from": instant_text(window),
            "to": instant_text(window + timedelta(days=1)),
        }
        try:
            answer = client.get(f"http://{self.settings.api}/v1/alerts", params=asked)
            answer.raise_for_status()
        except httpx.HTTPError:
            # Of stores that it does not know yet, or while it starts: the deadline tells.
            return {}
        return {
            one["store_id"]: ToldRaise(one["alert_id"], one["state"])
            for one in answer.json()["alerts"]
            if datetime.fromisoformat(one["window"]["start"]) == window
        }


def in_force_from(settings: Settings) -> datetime:
    """From when on the demo's rule judges, UTC. Raises StackError where it was not applied."""
    newest = RuleReader(settings).read().newest(RULE)
    if newest is None:
        raise StackError(f"demo: the rule {RULE} is not there; `tally rules apply {RULE_FILE}`")
    return from_millis(newest.effective_from)


def show_alerts(
    settings: Settings, found: dict[str, ToldRaise], say: Callable[[str], None]
) -> None:
    """Says which is which, and where each can be looked at."""
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
    say(f"the rule, and what it would have told: {page}")


def how_to_see_alerts() -> str:
    """What a demo that does not stay says of its alerts."""
    return (
        f"The demo's rule of alerts, {RULE}, tells nothing so soon: it judges from a quarter hour"
        " on that begins at least 15 minutes after it was written, and a rebuild confirms or takes"
        " back what is over. `make demo` in a terminal stays and shows one of each, 30 to 50"
        " minutes after its start; `make demo ARGS='--once --alerts'` waits for them and stops."
    )


def _clock(instant: datetime) -> str:
    return f"{instant:%H:%M} UTC"
