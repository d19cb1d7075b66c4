"""One running loop for a test: the stack in its own folder, driven by the same verbs that a
person types."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from cassandra.cluster import Session
from tenacity import RetryError, retry, retry_if_result, stop_after_delay, wait_fixed

from ops.conflicts import accept, till_conflicts
from ops.lag import Lag, read_lag
from ops.local.demo.waits import wait_until_caught_up
from runtime.connect import cassandra_session
from runtime.registry.sources import SALES
from runtime.spark.checkpoint import read_committed_position
from runtime.spark.configuration import SHORT_RUN_JAVA
from speed_layer import receipts, views
from speed_layer.session import read_retained_offsets
from tally.config.settings import Settings

SERVICES = ("normaliser", "speed", "master", "api")
CATCH_UP_SECONDS = 600
# A test's JVMs live for minutes, and it does not want to wait for large files of the master
# dataset.
QUICK = {"TALLY_SPARK_JAVA_OPTIONS": SHORT_RUN_JAVA, "TALLY_INGEST_TRIGGER_SECONDS": "5"}


class Loop:
    """The verbs of the command line against one TALLY_HOME."""

    def __init__(self, home: Path, overrides: Mapping[str, str]) -> None:
        self.environment = {**QUICK, **os.environ, **overrides, "TALLY_HOME": str(home)}
        self.home = home
        self._rebuilt_at = 0.0

    @property
    def settings(self) -> Settings:
        """The settings as the loop's processes see them now."""
        return Settings.load(self.environment)

    def start(
        self, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> "subprocess.Popen[str]":
        """A verb begun as a process; its stdout is piped."""
        command = [sys.executable, "-m", "ops.cli", *arguments]
        return subprocess.Popen(
            command,
            env={**self.environment, **(environment or {})},
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """A verb run to its end; stderr goes to the test's output."""
        command = [sys.executable, "-m", "ops.cli", *arguments]
        return subprocess.run(
            command, env=self.environment, stdout=subprocess.PIPE, text=True, check=False
        )

    def json(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """The JSON object of a verb that must end with the code."""
        done = self.run(*arguments, "--json")
        assert done.returncode == code, (
            f"tally {' '.join(arguments)} ended with {done.returncode}: {done.stdout[-2000:]}"
        )
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def up(self, *services: str) -> None:
        """Start services and wait until they are ready."""
        assert self.run("up", *services).returncode == 0

    def down(self, *services: str) -> None:
        """Stop services."""
        assert self.run("down", *services).returncode == 0

    def status(self) -> dict[str, dict[str, Any]]:
        """State, pid, address and more by service, as `tally status` tells them; also while
        something does not run."""
        services: dict[str, dict[str, Any]] = json.loads(self.run("status", "--json").stdout)[
            "services"
        ]
        return services

    def pid(self, service: str) -> int:
        """Pid whose SIGKILL ends the service."""
        return int(self.status()[service]["pid"])

    def replay(self, *options: str) -> dict[str, Any]:
        """Replay real receipts; its result."""
        return self.json("replay", "--source", "complete-journey", *options)

    def catch_up(self) -> None:
        """Wait until everything that was sent is in both layers."""
        with cassandra_session(self.settings) as session:
            wait_until_caught_up(lambda: read_lag(self.settings, session), print, CATCH_UP_SECONDS)

    def rebuild_all_since(self, sent_at: float) -> None:
        """Return when everything that was sent before this instant of time.monotonic() is
        rebuilt: by a rebuild that began after it already, or by one of now."""
        if self._rebuilt_at <= sent_at:
            self._rebuilt_at = time.monotonic()
            self.json("rebuild", "--dirty")

    def accept_conflicts(self, stores: Collection[str]) -> int:
        """Let the conflicts of these stores stand that rebuilds have found; how many tills and
        days have such."""
        with cassandra_session(self.settings) as session:
            found = [one for one in till_conflicts(session) if one.store_id in stores]
            return len(accept(session, found, "a test made them", datetime.now(UTC)))

    def wait_for_receipts(self) -> None:
        """Return when the raw receipts are written as well: they come after the views, and no
        lag counts them."""
        checkpoint, end = (
            self.settings.checkpoint(receipts.QUERY),
            read_retained_offsets(self.settings, SALES.topic).end,
        )
        wait_until(
            lambda: has_reached(checkpoint, SALES.topic, end), 120, "the raw receipts are written"
        )

    def lag(self, session: Session) -> Lag:
        """The lag now."""
        return read_lag(self.settings, session)

    def micro_batches(self, query: str = views.QUERY) -> list[dict[str, Any]]:
        """Progress lines of the speed layer's micro-batches that held records."""
        log = self.home / "logs" / f"speed-progress-{query}.jsonl"
        lines = (
            [json.loads(line) for line in log.read_text("utf-8").splitlines()]
            if log.exists()
            else []
        )
        return [line for line in lines if line["input_rows"]]


@contextmanager
def running_loop(
    home: Path, *services: str, overrides: Mapping[str, str] | None = None
) -> Iterator[Loop]:
    """A loop from an empty folder with the services up; everything stopped at the end."""
    loop = Loop(home, overrides or {})
    try:
        loop.up(*(services or SERVICES))
        yield loop
    finally:
        loop.run("down")


def has_reached(checkpoint: Path, topic: str, end: Mapping[int, int]) -> bool:
    """Whether the query of a checkpoint has committed everything of the topic up to these
    offsets, by partition."""
    return (read_committed_position(checkpoint) or {}).get(topic) == end


def jvm_of(pid: int) -> psutil.Process:
    """The JVM of a Spark driver, by the pid of its Python."""
    children = psutil.Process(pid).children(recursive=True)
    return next(child for child in children if child.name() == "java")


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Return when the condition holds; fails the test after the deadline."""
    waiting = retry(
        retry=retry_if_result(lambda held: not held),
        stop=stop_after_delay(seconds),
        wait=wait_fixed(0.2),
    )
    try:
        waiting(condition)()
    except RetryError as error:
        raise AssertionError(f"not within {seconds:.0f} s: {what}") from error
