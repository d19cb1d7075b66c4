"""The demo, step by step: each is a command that a person could type, the last is an audit."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ops.lag import read_lag, read_waiting
from ops.local.demo.airflow import run_rebuild
from ops.local.demo.alerts import RULE_FILE, DemoAlerts, RaisedAlert, in_force_from, show_alerts
from ops.local.demo.live import time_receipt
from ops.local.demo.twin import TwinChild
from ops.local.demo.waits import Say, wait_for_master, wait_until_caught_up
from ops.local.processes.service import Site
from ops.local.services.catalogue import list_services
from runtime.connect import cassandra_session
from tally.config.settings import Settings
from tally.errors import StackError

CATCH_UP_SECONDS = 900
WARM_FROM = 2  # the first two micro-batches compile code and open connections
LAST = "airflow"
TALLY = (sys.executable, "-m", "ops.cli")
# One query over windows with receipts and an empty window; the README shows its answer.
_QUARTERS = ("--from", "2017-09-19T22:00:00Z", "--to", "2017-09-19T22:45:00Z")
SAMPLE = ("query", "revenue", "--store", "367", *_QUARTERS)
# The disturbances of the real receipts, in the demo and in tests that need the same.
_LATE = ("--disorder", "5m", "--late", "0.01", "--late-by", "1d")
DISTURBANCES = ("--duplicates", "0.02", *_LATE, "--conflicts", "20", "--bad", "12")


class DemoResult(NamedTuple):
    """The audit's exit code, and the address of the twin store's page."""

    audit_code: int
    twin_page: str


class Demo:
    """One run of the demo in one (fresh) TALLY_HOME."""

    def __init__(self, settings: Settings, environment: dict[str, str], say: Say) -> None:
        self._settings = settings
        self._environment = environment
        self._say = say
        self._seconds: dict[str, float] = {}
        self._starting: subprocess.Popen[str] | None = None
        self._twin: TwinChild | None = None

    def run(self, speed: float) -> DemoResult:
        """Run all steps of the demo; the replay is so many times faster than real time.

        Start the stack, replay the year, rebuild under Airflow, audit, start a twin store that
        keeps selling, and serve a receipt of now. The stack and the twin store are left running.
        """
        self._step("start the stack, Airflow beside what follows", self._start)
        # `up` has chosen the addresses by now.
        self._settings = Settings.load(self._environment)
        # The rule comes first, because it evaluates only windows that begin at least a quarter hour
        # after it was written.
        self._run("apply a rule of alerts", "rules", "apply", str(RULE_FILE))
        self._say(f"watch it come in: http://{self._settings.api}/")
        replay = ("replay", "--source", "complete-journey", "--seed", "1", "--speed", f"{speed:g}")
        self._run("replay one year of receipts", *replay, *DISTURBANCES)
        self._step("both layers catch up", self._catch_up)
        # Asked before the rebuild: afterwards the batch layer answers, regardless of the speed
        # layer's rows.
        self._run("one question before any rebuild: the speed layer answers", *SAMPLE)
        self._run("the ledger before the rebuild", "audit", "--only", "ledger")
        self._step("Airflow is there", self._wait_for_airflow)
        self._step(
            "rebuild the views under Airflow",
            lambda: run_rebuild(self._settings.airflow, {"mode": "full"}, self._say),
        )
        self._run("the same question after the rebuild: the batch layer answers", *SAMPLE)
        # The audit's exit code is also that of the demo.
        code = self._run("audit", "audit", check=False)
        # Read here, so that the summary is of the year's receipts only.
        speed_text = describe_speed(self._log("speed-progress-views.jsonl"))
        # Both come after the audit, which knows only the receipts of the package. The twin comes
        # first: a receipt of now in its partition would close the days that it has yet to send.
        page = self._step("a twin store catches up with now, and goes on", self._start_twin)
        live = self._step(
            "a receipt of this very second", lambda: time_receipt(self._settings, self._say)
        )
        durations = (f"{title} {seconds} s" for title, seconds in self._seconds.items())
        self._say(f"\ndurations: {', '.join(durations)}")
        self._say(speed_text)
        self._say(f"a receipt of this very second was served {live:.1f} s after it was sent")
        return DemoResult(code, page)

    def show_alerts(self) -> None:
        """Wait for an alert to be confirmed and one to be retracted. Raises StackError."""

        def rebuild() -> None:
            with cassandra_session(self._settings) as session:
                wait_for_master(lambda: read_waiting(self._settings, session))
            run_rebuild(self._settings.airflow, {"mode": "dirty"}, self._say)

        alerts = DemoAlerts(self._settings, self._say, rebuild)
        found: dict[str, RaisedAlert] = self._step(
            "two alerts: one that a rebuild confirms, one that it takes back",
            lambda: alerts.run(in_force_from(self._settings)),
        )
        show_alerts(self._settings, found, self._say)

    def watch_twin(self) -> None:
        """Return when the twin store has stopped sending, and print a line about it."""
        if self._twin is not None:
            self._twin.watch()

    def stop(self) -> None:
        """Stop everything that the demo started."""
        if self._twin is not None:
            self._twin.stop()
        if self._starting is not None and self._starting.poll() is None:
            # The process holds the stack's lock, for which `down` would wait.
            self._starting.terminate()
            self._starting.wait()
        self._run("stop the stack", "down")

    def _start(self) -> None:
        services = list_services(Site.from_settings(self._settings, self._environment))
        self._tally("up", *(name for name in services if name != LAST))
        # Airflow takes the longest to start, and is needed last.
        command, pipe = [*TALLY, "up", LAST], subprocess.PIPE
        self._starting = subprocess.Popen(
            command, env=self._environment, stdout=pipe, stderr=subprocess.STDOUT, text=True
        )

    def _start_twin(self) -> str:
        self._twin = twin = TwinChild(self._settings, self._environment, self._say)
        twin.start()
        twin.wait_until_served()
        self._say(f"its page, which goes on: {twin.page}")
        return twin.page

    def _wait_for_airflow(self) -> None:
        assert self._starting is not None
        output, _ = self._starting.communicate()
        self._say(f"$ tally up {LAST}\n{output.rstrip()}")
        self._check(f"up {LAST}", self._starting.returncode)
        self._settings = Settings.load(self._environment)

    def _step(self, title: str, action: Callable[[], Any]) -> Any:
        self._say(f"\n── {title}")
        started = time.monotonic()
        result = action()
        self._seconds[title] = round(time.monotonic() - started, 1)
        self._say(f"── {title}: {self._seconds[title]} s")
        return result

    def _run(self, title: str, *arguments: str, check: bool = True) -> int:
        return int(self._step(title, lambda: self._tally(*arguments, check=check)))

    def _tally(self, *arguments: str, check: bool = True) -> int:
        self._say(f"$ tally {' '.join(arguments)}")
        ended = subprocess.run([*TALLY, *arguments], env=self._environment, check=False)
        if check:
            self._check(" ".join(arguments), ended.returncode)
        return ended.returncode

    def _check(self, command: str, code: int) -> None:
        if code:
            logs = self._log("")
            raise StackError(f"demo: `tally {command}` ended with {code}; logs are in {logs}")

    def _log(self, name: str) -> Path:
        return self._settings.home / "logs" / name

    def _catch_up(self) -> None:
        with cassandra_session(self._settings) as session:
            wait_until_caught_up(
                lambda: read_lag(self._settings, session), self._say, CATCH_UP_SECONDS
            )


def describe_speed(log: Path) -> str:
    """A query's throughput, by its progress lines (JSON: batch_id, input_rows, duration_ms)."""
    text = log.read_text("utf-8") if log.exists() else ""
    filled = [
        (int(line["input_rows"]), line["duration_ms"]["triggerExecution"] / 1000)
        for line in map(json.loads, text.splitlines())
        if line["input_rows"]
    ]
    warm = filled[WARM_FROM:]
    records, seconds = sum(rows for rows, _ in warm), sum(taken for _, taken in warm)
    fastest = max((rows / taken for rows, taken in warm if taken), default=0.0)
    # Of micro-batch time, without the time spent waiting for input.
    per_second = records / seconds if seconds else 0.0
    return (
        f"speed layer: {len(filled)} micro-batches with receipts; from the third on"
        f" {records:,} records in {seconds:.1f} s of micro-batch time ="
        f" {per_second:,.0f} a second (fastest micro-batch {fastest:,.0f} a second)"
    )
