"""Starts again what has ended by itself: with back-off, and needs first.

It gives up where a new start cannot help. `python -m ops.local.stack.watcher` runs beside the local
stack. It begins nothing while `up` or `down` is at work: they hold the same lock.
"""

import logging
import os
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil
from confluent_kafka import KafkaException

from ops.local.stack import (
    catalogue,
    control,
    failing,
    logs,
    machine,
    processes,
    supervisor,
    watching,
)
from ops.local.stack.failing import Failing, Patience
from ops.local.stack.processes import Record
from ops.local.stack.service import Service, Site
from runtime.connect import CASSANDRA_AWAY
from runtime.job import REFUSED, run_job
from tally.errors import TallyError
from tally.settings import Settings

LOOK_EVERY_SECONDS = 1.0
# A service that does not answer is waited for, a second each: asked less often than looked at.
ASK_EVERY_LOOKS = 5
ROTATE_EVERY_LOOKS = 10
# Cassandra that begins on a full disk leaves a log without a head there, which it refuses to read
# ever after; with two of its logs' size it begins.
NEEDED_GIGABYTES = 0.25

log = logging.getLogger("watcher")


def main() -> int:
    """0 once everything was stopped; otherwise it runs until it is killed."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    return run_job(
        "watcher",
        lambda: watch(
            Site.of(Settings.load(), dict(os.environ)),
        ),
    )


def watch(site: Site) -> None:
    """Returns when another watcher is recorded, or none.

    There is none after `down` and when the home is gone.
    """
    watcher = Watcher(site)
    looks = 0
    while not looks or _is_recorded(site):
        try:
            watcher.know(catalogue.services_of(site).values())
            watcher.look()
            if looks % ASK_EVERY_LOOKS == 0:
                watcher.ask()
            if looks % ROTATE_EVERY_LOOKS == 0:
                logs.rotate(site.home / "logs")
        # Whatever one look meets: without its watcher nothing would come back at all.
        except (OSError, TallyError, psutil.Error, KafkaException, *CASSANDRA_AWAY) as error:
            log.error("%s; looking again", error)
        # What it has started is its child, also when somebody else stops it.
        processes.reap_children()
        looks += 1
        time.sleep(LOOK_EVERY_SECONDS)


def _is_recorded(site: Site) -> bool:
    record = processes.read_record(watching.record_file(site))
    return record is not None and record.pid == os.getpid()


class Watcher:
    """What one watcher remembers of the services of one site.

    That is since when each works, and the environment of its process.
    """

    def __init__(
        self, site: Site, services: Iterable[Service] = (), patience: Patience | None = None
    ) -> None:
        self._site = site
        self._services: dict[str, Service] = {}
        self.know(services)
        self._patience = patience or Patience()
        # Nowhere else, and on no disk: an environment may hold secrets.
        self._met: dict[str, tuple[Record, Mapping[str, str]]] = {}
        self._steady_since: dict[str, float] = {}

    def know(self, services: Iterable[Service]) -> None:
        """These services too: settings may have grown since the watcher began."""
        self._services.update({service.name: service for service in services})

    def look(self) -> None:
        """One look at every service that was started and not stopped.

        Nothing is begun while somebody holds the stack's lock.
        """
        for service in self._services.values():
            self._meet(service)
        with control.alone_or_not(self._site) as alone:
            for service in self._services.values() if alone else ():
                self._look_at(service)

    def ask(self) -> None:
        """Notes since when a service without heartbeat has been silent.

        Alive it may be frozen, or hang.
        """
        for service in self._services.values():
            if service.answers and service.name in self._steady_since:
                file = self._site.trace(service.name, supervisor.SILENT)
                if service.answers(self._site):
                    file.unlink(missing_ok=True)
                elif not file.exists():
                    file.touch()

    def _meet(self, service: Service) -> None:
        """A new start is to have the environment of the process that ended.

        It is read while that one lives.
        """
        record = supervisor.record_of(self._site, service)
        process = processes.process_of(record)
        # By the record: a service that was started anew has another environment.
        met, _ = self._met.get(service.name, (None, {}))
        if record and process and met != record:
            self._met[service.name] = record, process.environ()

    def _look_at(self, service: Service) -> None:
        record = supervisor.record_of(self._site, service)
        alive = supervisor.is_alive(self._site, service)
        if alive and ((record and record.ready) or supervisor.is_ready(self._site, service)):
            self._see_at_work(service)
            return
        self._steady_since.pop(service.name, None)
        if record and not alive:
            self._see_ended(service)
        elif not record:
            self._met.pop(service.name, None)

    def _see_at_work(self, service: Service) -> None:
        since = self._steady_since.setdefault(service.name, time.monotonic())
        if time.monotonic() - since >= self._patience.steady_seconds:
            self._site.trace(service.name, supervisor.FAILING).unlink(missing_ok=True)

    def _see_ended(self, service: Service) -> None:
        known, now = failing.read_failing(self._site, service), time.time()
        if known is None or known.under_way:
            code, words = supervisor.why_ended(self._site, service)
            # Jobs of ours leave a reason; of the others the end of the log is all there is.
            reason = words if code is not None else f"ended by itself; the end of its log: {words}"
            failed = known or Failing(now, reason)
            self._keep(service, failed.ended(reason, code == REFUSED, self._patience, now))
        elif known.is_due(self._patience, now):
            self._try(service, known, now)

    def _try(self, service: Service, known: Failing, now: float) -> None:
        # Without them it would end at once, and use up its tries.
        needs = (self._services[name] for name in service.needs)
        missing = [need.name for need in needs if not need.is_ready(self._site)]
        if missing := [*missing, *scarce_disks(self._site)]:
            failing.write_failing(
                self._site, service, known.waiting_for(missing, self._patience, now)
            )
            return
        # Noted ahead of the start: also a try in which this watcher ends is counted.
        tried = known.tried()
        self._keep(service, tried)
        try:
            self._start(service)
        except (OSError, TallyError) as error:
            self._keep(service, tried.ended(str(error), False, self._patience, now))

    def _start(self, service: Service) -> None:
        met = self._met.get(service.name)
        if met is None:
            supervisor.start(self._site, service)
        else:
            supervisor.start_again(self._site, service, met[1])

    def _keep(self, service: Service, known: Failing) -> None:
        failing.write_failing(self._site, service, known)
        what = (
            "given up"
            if known.given_up
            else f"try {known.tries} now"
            if known.under_way
            else f"try {known.tries + 1} to come"
        )
        log.info("%s: %s; %s", service.name, known.reason, what)


def scarce_disks(site: Site) -> list[str]:
    """Of the home and of what lies in its data folder: the disks without space for a start."""
    services = filter(Path.is_dir, (site.home / "data").glob("*"))
    folders = [site.home, *services]
    # Mostly one disk for all of it.
    by_disk = {folder.stat().st_dev: folder for folder in reversed(folders)}
    scarce = (machine.scarce_disk(one, NEEDED_GIGABYTES) for one in by_disk.values())
    return [one for one in scarce if one]


if __name__ == "__main__":
    sys.exit(main())
