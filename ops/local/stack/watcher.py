"""Restarts services that ended by themselves: with back-off, and needed services first.

It gives up where a new start cannot help. `python -m ops.local.stack.watcher` runs beside the local
stack. It starts nothing while `up` or `down` runs, because they hold the same lock.
"""

import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec
import psutil
from confluent_kafka import KafkaException

from ops.local import machine
from ops.local.processes import processes, supervisor
from ops.local.processes.processes import Record
from ops.local.processes.service import Service, Site
from ops.local.services import catalogue
from runtime.connect import CASSANDRA_ERRORS
from runtime.process.files import python_path, write_atomically
from runtime.process.job import REFUSED, run_job
from tally.config.settings import Settings
from tally.errors import TallyError

NAME = "watcher"
STOP_SECONDS = 5.0
CHECK_EVERY_SECONDS = 1.0
# A probe of a service that does not answer takes a second, so probes are rarer than checks.
PROBE_EVERY_CHECKS = 5
ROTATE_EVERY_CHECKS = 10
# If Cassandra starts on a full disk, it leaves a commit log without a header, which it refuses to
# read on all later starts; with the size of two of its logs free it starts.
NEEDED_GIGABYTES = 0.25
MAX_LOG_BYTES = 20_000_000
OLD_LOGS = 5  # about 120 MB per service, the log itself included
_WAITS = "; waits for "

log = logging.getLogger(NAME)


@dataclass(frozen=True)
class RestartPolicy:
    """When to retry: seconds to the first try, and most seconds between tries.

    It gives up after `tries` in a row; `steady_seconds` of work reset the count.
    """

    first_seconds: float = 1.0
    most_seconds: float = 60.0
    tries: int = 8
    steady_seconds: float = 60.0


class RestartState(msgspec.Struct, frozen=True):
    """The failure of a service; times are seconds since 1970.

    `next_try` is None during a try, and permanently once the service is `given_up`.
    """

    since: float
    reason: str
    tries: int = 0
    next_try: float | None = None
    given_up: bool = False

    @property
    def is_trying(self) -> bool:
        """Whether a try is in progress: a service that is found ended has then failed again."""
        return self.next_try is None and not self.given_up

    def record_end(
        self, reason: str, refused: bool, policy: RestartPolicy, now: float
    ) -> "RestartState":
        """With a later next try; given up after too many, or a refusal, which would repeat."""
        if refused or self.tries >= policy.tries:
            return msgspec.structs.replace(self, reason=reason, next_try=None, given_up=True)
        # Doubled each time: a short problem is retried soon, and a long one costs few starts.
        wait = min(policy.first_seconds * 2**self.tries, policy.most_seconds)
        return msgspec.structs.replace(self, reason=reason, next_try=now + wait)

    def is_due(self, policy: RestartPolicy, now: float) -> bool:
        """Whether the next try is due; a wall clock set back does not delay it for hours."""
        return self.next_try is not None and not 0 < self.next_try - now <= policy.most_seconds

    def wait_for_needs(self, needs: list[str], policy: RestartPolicy, now: float) -> "RestartState":
        """The state while a needed service does not work; waiting does not count as a try."""
        # The needs of the previous check are removed from the reason.
        reason = self.reason.partition(_WAITS)[0] + _WAITS + ", ".join(needs)
        return msgspec.structs.replace(self, reason=reason, next_try=now + policy.first_seconds)

    def record_try(self) -> "RestartState":
        """The state during a new try, with one more start counted."""
        reason, tries = self.reason.partition(_WAITS)[0], self.tries + 1
        return msgspec.structs.replace(self, reason=reason, tries=tries, next_try=None)


def read_restart_state(site: Site, service: Service) -> RestartState | None:
    """The stored failure of a service that ended by itself, until it is started by hand."""
    file = site.trace(service.name, supervisor.FAILING)
    return msgspec.json.decode(file.read_bytes(), type=RestartState) if file.exists() else None


def main() -> int:
    """Return 0 once everything was stopped; otherwise run until killed."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")

    def watch_site() -> None:
        watch(Site.from_settings(Settings.load(), dict(os.environ)))

    return run_job(NAME, watch_site)


def watch(site: Site) -> None:
    """Watch the site until another watcher or none is recorded: `down` or a deleted home."""
    watcher = Watcher(site)
    looks = 0
    while not looks or _is_current(site):
        try:
            watcher.add_services(catalogue.list_services(site).values())
            watcher.check_services()
            if looks % PROBE_EVERY_CHECKS == 0:
                watcher.probe_services()
            if looks % ROTATE_EVERY_CHECKS == 0:
                rotate_logs(site.home / "logs")
        # An error must not end the watcher: without it no service would be restarted.
        except (OSError, TallyError, psutil.Error, KafkaException, *CASSANDRA_ERRORS) as error:
            log.error("%s; looking again", error)
        # Services that it started are its children, even when another process stops them.
        processes.reap_children()
        looks += 1
        time.sleep(CHECK_EVERY_SECONDS)


class Watcher:
    """Since when each service of one site works, and the environment of its process."""

    def __init__(
        self, site: Site, services: Iterable[Service] = (), policy: RestartPolicy | None = None
    ) -> None:
        self._site = site
        self._services: dict[str, Service] = {}
        self.add_services(services)
        self._policy = policy or RestartPolicy()
        # Only in memory, never on disk: an environment may hold secrets.
        self._environments: dict[str, tuple[Record, Mapping[str, str]]] = {}
        self._steady_since: dict[str, float] = {}

    def add_services(self, services: Iterable[Service]) -> None:
        """Add these services: changed settings may want more than at the watcher's start."""
        self._services.update({service.name: service for service in services})

    def check_services(self) -> None:
        """Check every service that was not stopped; start nothing while the stack is locked."""
        for service in self._services.values():
            self._remember(service)
        with supervisor.try_lock_stack(self._site) as alone:
            for service in self._services.values() if alone else ():
                self._check(service)

    def probe_services(self) -> None:
        """Record since when a service without heartbeat is silent: its process may be frozen."""
        for service in self._services.values():
            if service.answers and service.name in self._steady_since:
                file = self._site.trace(service.name, supervisor.SILENT)
                if service.answers(self._site):
                    file.unlink(missing_ok=True)
                elif not file.exists():
                    file.touch()

    def _remember(self, service: Service) -> None:
        """Remember the environment of the process, which is readable only while it lives."""
        record = supervisor.read_service_record(self._site, service)
        process = processes.find_recorded_process(record)
        # Compared by record: a service that was restarted by hand may have another environment.
        remembered, _ = self._environments.get(service.name, (None, {}))
        if record and process and remembered != record:
            self._environments[service.name] = record, process.environ()

    def _check(self, service: Service) -> None:
        record = supervisor.read_service_record(self._site, service)
        alive = supervisor.is_alive(self._site, service)
        if alive and ((record and record.ready) or supervisor.is_ready(self._site, service)):
            since = self._steady_since.setdefault(service.name, time.monotonic())
            if time.monotonic() - since >= self._policy.steady_seconds:
                self._site.trace(service.name, supervisor.FAILING).unlink(missing_ok=True)
            return
        self._steady_since.pop(service.name, None)
        if record and not alive:
            self._handle_end(service)
        elif not record:
            self._environments.pop(service.name, None)

    def _handle_end(self, service: Service) -> None:
        known, now = read_restart_state(self._site, service), time.time()
        if known is None or known.is_trying:
            code, words = supervisor.exit_reason(self._site, service)
            # Tally's jobs leave a reason; for other services there is only the end of the log.
            reason = words if code is not None else f"ended by itself; the end of its log: {words}"
            failed = known or RestartState(now, reason)
            self._note(service, failed.record_end(reason, code == REFUSED, self._policy, now))
        elif known.is_due(self._policy, now):
            self._try(service, known, now)

    def _try(self, service: Service, known: RestartState, now: float) -> None:
        # Without its needs the service would end at once, and use up its tries.
        needs = (self._services[name] for name in service.needs)
        unready = [need.name for need in needs if not need.is_ready(self._site)]
        if missing := [*unready, *scarce_disks(self._site)]:
            self._write(service, known.wait_for_needs(missing, self._policy, now))
            return
        # Stored before the start, so that a try during which this watcher ends is counted too.
        tried = known.record_try()
        self._note(service, tried)
        try:
            record, environment = self._environments.get(service.name, (None, {}))
            if record is None:
                supervisor.start(self._site, service)
            else:
                supervisor.restart(self._site, service, environment)
        except (OSError, TallyError) as error:
            self._note(service, tried.record_end(str(error), False, self._policy, now))

    def _note(self, service: Service, state: RestartState) -> None:
        self._write(service, state)
        coming = f"try {state.tries} now" if state.is_trying else f"try {state.tries + 1} to come"
        what = "given up" if state.given_up else coming
        log.info("%s: %s; %s", service.name, state.reason, what)

    def _write(self, service: Service, state: RestartState) -> None:
        file = self._site.trace(service.name, supervisor.FAILING)
        write_atomically(file, msgspec.json.encode(state))


def scarce_disks(site: Site) -> list[str]:
    """Texts about disks without space for a start, of the home and its data folders."""
    services = filter(Path.is_dir, (site.home / "data").glob("*"))
    # Usually all folders are on one disk.
    by_disk = {folder.stat().st_dev: folder for folder in (*services, site.home)}
    scarce = (machine.scarce_disk(path, NEEDED_GIGABYTES) for path in by_disk.values())
    return [text for text in scarce if text]


def rotate_logs(folder: Path, most_bytes: int = MAX_LOG_BYTES) -> None:
    """Copy each log above the limit (in bytes) to <name>.1, and truncate it.

    The previous <name>.1 moves to <name>.2, and so on. The log is truncated in place, because its
    writer keeps the file open; lines that are written in that instant are lost.
    """
    for file in (*folder.glob("*.log"), *folder.glob("*.jsonl")):
        if file.stat().st_size > most_bytes:
            _rotate_log(file)


def _rotate_log(file: Path) -> None:
    past = [file.with_name(f"{file.name}.{number}") for number in range(1, OLD_LOGS + 1)]
    for older, newer in pairwise(reversed(past)):
        if newer.exists():
            newer.rename(older)
    # A copy, not a rename: it keeps the mode of the log, which only the owner may read.
    shutil.copy(file, past[0])
    with file.open("r+b") as log:
        log.truncate()


def watcher_file(site: Site) -> Path:
    """The file with the record of the running watcher's process."""
    return site.trace(NAME, "json")


def watcher_runs(site: Site) -> bool:
    """Whether a watcher runs."""
    return processes.find_recorded_process(processes.read_record(watcher_file(site))) is not None


def ensure_watcher(site: Site) -> None:
    """Start a watcher if a service was started and none runs; the stack must be locked."""
    # Under the lock, else two callers of `up` would leave two watchers.
    if has_started_services(site) and not watcher_runs(site):
        variables = {
            "PYTHONPATH": python_path(site.environment),
            processes.MARK: f"{site.home}:{NAME}",
            "TALLY_HOME": str(site.home),
        }
        argv = (sys.executable, "-m", "ops.local.stack.watcher")
        record = processes.start_detached(argv, {**site.environment, **variables}, site.log(NAME))
        processes.write_record(watcher_file(site), record)


def end_idle_watcher(site: Site) -> None:
    """End the watcher if every service was stopped; under the lock, so that it starts nothing."""
    if has_started_services(site):
        return
    # Under the lock all services that the watcher started are in the records.
    process = processes.find_recorded_process(processes.read_record(watcher_file(site)))
    if process is not None:
        processes.send(process, signal.SIGTERM)
        processes.wait_until_ended([process], STOP_SECONDS)
    watcher_file(site).unlink(missing_ok=True)


def has_started_services(site: Site) -> bool:
    """Whether a service was started and not stopped."""
    return any(file.stem != NAME for file in site.run("").glob("*.json"))


def _is_current(site: Site) -> bool:
    record = processes.read_record(watcher_file(site))
    return record is not None and record.pid == os.getpid()


if __name__ == "__main__":
    sys.exit(main())
