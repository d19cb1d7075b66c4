"""Restarts services that ended by themselves: with back-off, and needed services first.

It gives up where a new start cannot help. `python -m ops.local.stack.watcher` runs beside the local
stack. It starts nothing while `up` or `down` runs, because they hold the same lock.
"""

import logging
import os
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil
from confluent_kafka import KafkaException

from ops.local.machine import logs, machine
from ops.local.processes import processes, restart_policy, supervisor, watching
from ops.local.processes.processes import Record
from ops.local.processes.restart_policy import RestartPolicy, RestartState
from ops.local.processes.service import Service, Site
from ops.local.services import catalogue
from ops.local.stack import control
from runtime.connect import CASSANDRA_ERRORS
from runtime.process.job import REFUSED, run_job
from tally.config.settings import Settings
from tally.errors import TallyError

CHECK_EVERY_SECONDS = 1.0
# A probe of a service that does not answer takes a second, so probes are rarer than checks.
PROBE_EVERY_CHECKS = 5
ROTATE_EVERY_CHECKS = 10
# If Cassandra starts on a full disk, it leaves a commit log without a header, which it refuses to
# read on all later starts; with the size of two of its logs free it starts.
NEEDED_GIGABYTES = 0.25

log = logging.getLogger("watcher")


def main() -> int:
    """Return 0 once everything was stopped; otherwise run until killed."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    return run_job(
        "watcher",
        lambda: watch(
            Site.from_settings(Settings.load(), dict(os.environ)),
        ),
    )


def watch(site: Site) -> None:
    """Watch the site; returns when another watcher, or none, is recorded.

    None is recorded after `down`, and when the home was deleted.
    """
    watcher = Watcher(site)
    looks = 0
    while not looks or _is_current(site):
        try:
            watcher.add_services(catalogue.list_services(site).values())
            watcher.check_services()
            if looks % PROBE_EVERY_CHECKS == 0:
                watcher.probe_services()
            if looks % ROTATE_EVERY_CHECKS == 0:
                logs.rotate(site.home / "logs")
        # An error must not end the watcher: without it no service would be restarted.
        except (OSError, TallyError, psutil.Error, KafkaException, *CASSANDRA_ERRORS) as error:
            log.error("%s; looking again", error)
        # Services that it started are its children, even when another process stops them.
        processes.reap_children()
        looks += 1
        time.sleep(CHECK_EVERY_SECONDS)


def _is_current(site: Site) -> bool:
    record = processes.read_record(watching.record_file(site))
    return record is not None and record.pid == os.getpid()


class Watcher:
    """The state of one watcher for the services of one site.

    It remembers since when each service works, and the environment of its process.
    """

    def __init__(
        self, site: Site, services: Iterable[Service] = (), patience: RestartPolicy | None = None
    ) -> None:
        self._site = site
        self._services: dict[str, Service] = {}
        self.add_services(services)
        self._policy = patience or RestartPolicy()
        # Only in memory, never on disk: an environment may hold secrets.
        self._environments: dict[str, tuple[Record, Mapping[str, str]]] = {}
        self._steady_since: dict[str, float] = {}

    def add_services(self, services: Iterable[Service]) -> None:
        """Add these services: changed settings may want more than at the watcher's start."""
        self._services.update({service.name: service for service in services})

    def check_services(self) -> None:
        """Check every service that was started and not stopped.

        Nothing is started while another process holds the stack's lock.
        """
        for service in self._services.values():
            self._remember(service)
        with control.try_lock_stack(self._site) as alone:
            for service in self._services.values() if alone else ():
                self._check(service)

    def probe_services(self) -> None:
        """Record since when a service without heartbeat has been silent.

        A live process may be frozen, or hang.
        """
        for service in self._services.values():
            if service.answers and service.name in self._steady_since:
                file = self._site.trace(service.name, supervisor.SILENT)
                if service.answers(self._site):
                    file.unlink(missing_ok=True)
                elif not file.exists():
                    file.touch()

    def _remember(self, service: Service) -> None:
        """Remember the environment of the running process, for a later restart.

        It can be read only while the process lives.
        """
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
            self._note_working(service)
            return
        self._steady_since.pop(service.name, None)
        if record and not alive:
            self._handle_end(service)
        elif not record:
            self._environments.pop(service.name, None)

    def _note_working(self, service: Service) -> None:
        since = self._steady_since.setdefault(service.name, time.monotonic())
        if time.monotonic() - since >= self._policy.steady_seconds:
            self._site.trace(service.name, supervisor.FAILING).unlink(missing_ok=True)

    def _handle_end(self, service: Service) -> None:
        known, now = restart_policy.read_restart_state(self._site, service), time.time()
        if known is None or known.is_trying:
            code, words = supervisor.exit_reason(self._site, service)
            # Tally's jobs leave a reason; for other services there is only the end of the log.
            reason = words if code is not None else f"ended by itself; the end of its log: {words}"
            failed = known or RestartState(now, reason)
            self._write_state(
                service, failed.record_end(reason, code == REFUSED, self._policy, now)
            )
        elif known.is_due(self._policy, now):
            self._try(service, known, now)

    def _try(self, service: Service, known: RestartState, now: float) -> None:
        # Without its needs the service would end at once, and use up its tries.
        needs = (self._services[name] for name in service.needs)
        missing = [need.name for need in needs if not need.is_ready(self._site)]
        if missing := [*missing, *scarce_disks(self._site)]:
            restart_policy.write_restart_state(
                self._site, service, known.wait_for_needs(missing, self._policy, now)
            )
            return
        # Stored before the start, so that a try during which this watcher ends is counted too.
        tried = known.record_try()
        self._write_state(service, tried)
        try:
            self._start(service)
        except (OSError, TallyError) as error:
            self._write_state(service, tried.record_end(str(error), False, self._policy, now))

    def _start(self, service: Service) -> None:
        remembered = self._environments.get(service.name)
        if remembered is None:
            supervisor.start(self._site, service)
        else:
            supervisor.restart(self._site, service, remembered[1])

    def _write_state(self, service: Service, known: RestartState) -> None:
        restart_policy.write_restart_state(self._site, service, known)
        what = (
            "given up"
            if known.given_up
            else f"try {known.tries} now"
            if known.is_trying
            else f"try {known.tries + 1} to come"
        )
        log.info("%s: %s; %s", service.name, known.reason, what)


def scarce_disks(site: Site) -> list[str]:
    """Texts about disks without space for a start, of the home and its data folders."""
    services = filter(Path.is_dir, (site.home / "data").glob("*"))
    folders = [site.home, *services]
    # Usually all folders are on one disk.
    by_disk = {folder.stat().st_dev: folder for folder in reversed(folders)}
    scarce = (machine.scarce_disk(path, NEEDED_GIGABYTES) for path in by_disk.values())
    return [text for text in scarce if text]


if __name__ == "__main__":
    sys.exit(main())
