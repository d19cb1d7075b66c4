"""The demo's twin store: it has sold for some days, is open now, and sends until the demo ends."""

import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ops.local.demo.live import wait_until_served
from ops.local.demo.waits import Say
from ops.local.machine import owner_only
from runtime.registry.store_fields import midday_zone
from runtime.registry.stores import StoreEntry, load_stores
from tally.config.settings import Settings
from tally.errors import ApiError, StackError
from web.client import ApiClient

STORE = "twin-1"
# The opening and closing hours of the stores of `tally simulate`.
OPENS, CLOSES = 8, 20
# From this hour on some visitor has come, left, and been gone for a quarter hour.
FIRST_VISITS = 9
# Enough days for a report of a week, and the day before it.
DAYS, LIVE_DAYS = 8, 3
# The metrics of today from people counters and WiFi.
METRICS = ("visitors_in", "in_store_traffic")
_STORES_FILE = f"""{STORE}:
  name: Twin store (simulated)
  tz: {{zone}}
  opening_hours: {{{{mon-sun: "{OPENS:02}:00-{CLOSES:02}:00"}}}}
  tills: 3
  networks: [twin-1]
  sensors:
    twin00000001: {{{{device_id: door-1, interval_seconds: 60, door: front}}}}
    twin00000002: {{{{device_id: door-2, interval_seconds: 60, door: back}}}}
"""


def write_stores(file: Path) -> None:
    """Write a stores file with the twin store in a time zone where it is about midday now."""
    # An existing file stays: a store's time zone can never change.
    if file.exists():
        return
    with owner_only():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_STORES_FILE.format(zone=midday_zone()), "utf-8")


class TwinChild:
    """The sending child process, which ends when this process ends, and its store's page."""

    def __init__(self, settings: Settings, environment: Mapping[str, str], say: Say) -> None:
        self._settings = settings
        self._environment = environment
        self._say = say
        self.page = f"http://{settings.api}/?store={STORE}&days=7"
        self._log = settings.home / "logs" / "twin.log"
        self._process: subprocess.Popen[str] | None = None
        entry = load_stores(settings.stores_file).get(STORE, StoreEntry())
        self._zone = entry.clock(settings.default_timezone).zone

    def start(self) -> None:
        """Return once the process has caught up with now. Raises StackError if it ends before."""
        sent = f"--days {DAYS} --catch-up --live-minutes {LIVE_DAYS * 24 * 60}"
        self._say(f"$ tally simulate {sent}")
        with owner_only(), self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ops.cli", "simulate", *sent.split(), "--until-stdin-ends"],
                env={**self._environment},
                # Only this process holds the pipe open: the child ends when it closes.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # Ctrl-C goes to the demo only, which then stops the child.
                start_new_session=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            self.stop()
            raise StackError(
                f"demo: the twin store ended with {code} before it had caught up; see {self._log}"
            )
        self._say(f"{STORE}: {line.rstrip()}")

    def wait_until_served(self, now: datetime | None = None) -> None:
        """Return when today's visits are served, if any can be. Raises StackError if too late."""
        local = (now or datetime.now(UTC)).astimezone(self._zone)
        if line := opening_message(local):
            self._say(line)
        if local.hour < FIRST_VISITS:
            return
        found = dict.fromkeys(METRICS, 0)
        with ApiClient(self._settings.api, "demo", 30) as api:

            def all_served() -> bool:
                found.update({name: _total(api, name, local) for name in METRICS})
                return all(found.values())

            wait_until_served(
                all_served, lambda: f"of today's store {STORE} the API answers {_counts(found)}"
            )
        self._say(f"{STORE} today, as the API answers so far: {_counts(found)}")

    def stop(self) -> None:
        """End the process, if it runs."""
        if self._process is not None:
            self._process.terminate()
            self._process.communicate()

    def watch(self) -> None:
        """Return when the process has ended, and print a line about it."""
        if self._process is None:
            return
        # It prints at most one more line, so the pipe cannot fill up.
        code = self._process.wait()
        self._say(f"{STORE} sends no more: it ended with {code}; see {self._log}")


def opening_message(local: datetime) -> str | None:
    """The line about a closed twin store at this local time; None if it is open."""
    if OPENS <= local.hour < CLOSES:
        return None
    day = "today" if local.hour < OPENS else "tomorrow"
    return (
        f"{STORE} is closed: it is {local:%H:%M} by its clock ({local.tzinfo});"
        f" it opens {day} at {OPENS:02}:00"
    )


def _total(api: ApiClient, metric: str, local: datetime) -> int:
    """The metric of the local day so far, as the API answers; 0 while it has no answer."""
    today, tomorrow = local.date(), local.date() + timedelta(days=1)
    day = {"from": today.isoformat(), "to": tomorrow.isoformat(), "tz": "store"}
    try:
        answer = api.get(f"/v1/metrics/{metric}", {"store": STORE, **day, "grain": "15m"})
    except ApiError:
        # The API may be starting, or may not know the store yet: the caller has the deadline.
        return 0
    return sum(row["value"] or 0 for row in answer["rows"])


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value:,}" for name, value in found.items())
