"""The demo's twin store: it has been selling for some days, is open now, and sends until the demo
ends."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

import httpx

from ops.local.demo.live import wait_until
from ops.local.stack.private import owner_only
from runtime.store_fields import zone_of_midday
from runtime.stores import StoreEntry, store_entries
from tally.errors import StackError
from tally.settings import Settings

STORE = "twin-1"
# When `tally simulate` lets its stores open and close.
OPENS, CLOSES = 8, 20
# By then somebody has come, left, and been gone for a quarter hour.
FIRST_VISITS = 9
# A report of a week has all of its days, and one just before.
DAYS, LIVE_DAYS = 8, 3
# What people counters and WiFi have told of today.
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
    """Writes a stores file with the twin store where it is about midday now; one that is there
    stays, for a store's zone can never change."""
    if file.exists():
        return
    with owner_only():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_STORES_FILE.format(zone=zone_of_midday()), "utf-8")


class TwinChild:
    """The process that sends, a child of this one; it ends when this one does, however it does."""

    def __init__(
        self,
        settings: Settings,
        environment: Mapping[str, str],
        say: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._say = say
        self._process: subprocess.Popen[str] | None = None
        entry = store_entries(settings.stores_file).get(STORE, StoreEntry())
        self._zone = entry.clock(settings.default_timezone).zone

    @property
    def page(self) -> str:
        """Address of the store's page."""
        return f"http://{self._settings.api}/?store={STORE}&days=7"

    def start(self) -> None:
        """Starts it, and returns when it has caught up with now.

        Raises StackError when it ends before.
        """
        sent = f"--days {DAYS} --catch-up --live-minutes {LIVE_DAYS * 24 * 60}"
        self._say(f"$ tally simulate {sent}")
        with owner_only(), self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ops.cli", "simulate", *sent.split(), "--until-stdin-ends"],
                env={**self._environment},
                # Held open by this process alone: it ends when we do.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # Ctrl-C is for the demo, which then stops it.
                start_new_session=True,
            )
        told = _held(self._process.stdout).readline()
        if not told:
            code = self._process.wait()
            self.stop()
            raise StackError(
                f"demo: the twin store ended with {code} before it had caught up; see {self._log}"
            )
        self._say(f"{STORE}: {told.rstrip()}")

    def wait_until_served(self, now: datetime | None = None) -> None:
        """Returns when today's visitors and visits are answered; at once where none can be yet.

        Raises StackError when they are not within a minute.
        """
        local = (now or datetime.now(UTC)).astimezone(self._zone)
        if told := closed_line(local):
            self._say(told)
        if local.hour < FIRST_VISITS:
            return
        found = dict.fromkeys(METRICS, 0)
        with httpx.Client(base_url=f"http://{self._settings.api}", timeout=30) as client:

            def all_served() -> bool:
                found.update({name: _total(client, name, local) for name in METRICS})
                return all(found.values())

            wait_until(
                all_served, lambda: f"of today's store {STORE} the API answers {_counts(found)}"
            )
        self._say(f"{STORE} today, as the API answers so far: {_counts(found)}")

    def stop(self) -> None:
        """Ends it, if it runs."""
        if self._process is not None:
            self._process.terminate()
            self._process.communicate()

    def watch(self) -> None:
        """Returns when it has ended, and says so."""
        if self._process is None:
            return
        # What it still prints is a line at most.
        code = self._process.wait()
        self._say(f"{STORE} sends no more: it ended with {code}; see {self._log}")

    @property
    def _log(self) -> Path:
        return self._settings.home / "logs" / "twin.log"


def closed_line(local: datetime) -> str | None:
    """What to say of the twin store when it is closed at the instant of its clock; else None."""
    if OPENS <= local.hour < CLOSES:
        return None
    day = "today" if local.hour < OPENS else "tomorrow"
    return (
        f"{STORE} is closed: it is {local:%H:%M} by its clock ({local.tzinfo});"
        f" it opens {day} at {OPENS:02}:00"
    )


def _total(client: httpx.Client, metric: str, local: datetime) -> int:
    """The metric of the local day so far, as the API answers; 0 while it answers nothing."""
    asked = {
        "store": STORE,
        "from": local.date().isoformat(),
        "to": (local.date() + timedelta(days=1)).isoformat(),
        "tz": "store",
        "grain": "15m",
    }
    try:
        answer = client.get(f"/v1/metrics/{metric}", params=asked).raise_for_status()
    except httpx.HTTPError:
        # Of a store that it does not know yet, or that it starts: the deadline tells.
        return 0
    return sum(row["value"] or 0 for row in answer.json()["rows"])


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value:,}" for name, value in found.items())


def _held(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
