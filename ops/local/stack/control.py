"""`up`, `down` and `status` of the whole stack, under a lock; a status has no side effect."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from ops.local.processes import supervisor
from ops.local.processes.service import Service, Site
from ops.local.stack.watcher import (
    end_idle_watcher,
    ensure_watcher,
    read_restart_state,
    watcher_runs,
)
from runtime.process import heartbeat
from runtime.process.job import REFUSED
from tally.errors import RestartNeeded, StackError, TallyError

LOOK_EVERY_SECONDS = 0.1
Tell = Callable[[str], None]
ServiceState = Literal["running", "starting", "stalled", "failing", "failed", "stopped"]


@dataclass(frozen=True)
class ServiceStatus:
    """One line of `tally status`.

    `pid` is a process whose SIGKILL ends the service, None when it does not run. `since`: when it
    got into this state. `reason`: why it does no work. `next_try`: when it is restarted
    automatically, None if never. Instants are RFC 3339 in UTC.
    """

    state: ServiceState
    pid: int | None
    address: str | None
    log: str
    since: str | None = None
    reason: str | None = None
    next_try: str | None = None


class _Start:
    """The progress of `up`: services by state, start times, and reasons of failures."""

    def __init__(self, site: Site, services: Iterable[Service], tell: Tell) -> None:
        self.site, self.tell = site, tell
        self.waiting = list(services)
        self.started: dict[str, tuple[Service, float]] = {}
        self.already_running, self.restarted = set[str](), set[str]()
        self.ready = set[str]()
        self.failed: dict[str, str] = {}

    def start_next(self) -> None:
        """Start each service of which all needs are ready."""
        for service in list(self.waiting):
            broken = [need for need in service.needs if need in self.failed]
            if broken:
                self.waiting.remove(service)
                self.failed[service.name] = f"not started, it needs {', '.join(broken)}"
            elif set(service.needs) <= self.ready:
                self.waiting.remove(service)
                self._start(service)

    def check_started(self) -> None:
        """Move each started service on that has become ready, or has failed."""
        for name, (service, since) in list(self.started.items()):
            seconds = time.monotonic() - since
            try:
                if not self._is_ready(service, seconds):
                    continue
                # This also runs for a service that ran before: changed settings must reach existing
                # topics.
                if service.once_ready:
                    service.once_ready(self.site)
                self.ready.add(name)
                address = service.address(self.site.settings)
                is_old = name in self.already_running
                how = "runs already" if is_old else f"ready after {seconds:.1f} s"
                self.tell(f"{name}: {how}{f' at {address}' if address else ''}")
                del self.started[name]
            except RestartNeeded as error:
                del self.started[name]
                self._restart(service, error)
            except TallyError as error:
                del self.started[name]
                self.failed[name] = str(error).removeprefix(f"{name}: ")

    def _start(self, service: Service) -> None:
        try:
            if supervisor.is_alive(self.site, service):
                self.already_running.add(service.name)
            else:
                self.tell(f"{service.name}: starting")
                # A start by hand resets the count: earlier tries do not matter.
                self.site.trace(service.name, supervisor.FAILING).unlink(missing_ok=True)
                supervisor.start(self.site, service)
            self.started[service.name] = (service, time.monotonic())
        except TallyError as error:
            self.failed[service.name] = str(error).removeprefix(f"{service.name}: ")

    def _restart(self, service: Service, why: RestartNeeded) -> None:
        # A second request counts as a failure.
        if service.name in self.restarted:
            self.failed[service.name] = str(why)
            return
        self.tell(f"{service.name}: restarting ({why})")
        self.restarted.add(service.name)
        self.already_running.discard(service.name)
        supervisor.finish_stop(self.site, service, supervisor.ask_to_stop(self.site, service))
        self._start(service)

    def _is_ready(self, service: Service, seconds: float) -> bool:
        log = self.site.log(service.name)
        # Checked first: a ready file outlives the process that has touched it.
        if not supervisor.is_alive(self.site, service):
            reason = supervisor.exit_reason(self.site, service)[1]
            raise StackError(f"ended while it started ({reason}); see {log}")
        if supervisor.is_ready(self.site, service):
            return True
        if seconds > service.start_seconds:
            waited = f"not ready after {service.start_seconds:.0f} s"
            raise StackError(f"{waited}; see {log}, then run `up` again")
        return False


def up(site: Site, services: Sequence[Service], tell: Tell) -> None:
    """Start every service of `services`, needs included, and wait until they are ready.

    Services that run already keep their process. Raises StackError, with the name of each service
    that did not come up, after the others have.
    """
    with supervisor.lock_stack(site):
        progress = _Start(site, services, tell)
        while progress.waiting or progress.started:
            progress.start_next()
            progress.check_started()
            if progress.started:
                time.sleep(LOOK_EVERY_SECONDS)
    if progress.failed:
        raise StackError("; ".join(f"{name}: {reason}" for name, reason in progress.failed.items()))


def down(site: Site, services: Sequence[Service], tell: Tell) -> None:
    """Stop the services, each after those that need it, and all processes that they started."""
    with supervisor.lock_stack(site):
        left = list(services)
        while left:
            needed = {need for service in left for need in service.needs}
            if len(left) > 1:
                # Kafka stops alone and last: services that shut down may still commit to it.
                needed.add("kafka")
            wave = [service for service in left if service.name not in needed]
            stopping = [(service, supervisor.ask_to_stop(site, service)) for service in wave]
            for service, process in stopping:
                supervisor.finish_stop(site, service, process)
                if process is not None:
                    tell(f"{service.name}: stopped")
            left = [service for service in left if service not in wave]
        end_idle_watcher(site)


def watch(site: Site) -> None:
    """Start the watcher, which restarts services that end by themselves."""
    with supervisor.lock_stack(site):
        ensure_watcher(site)


def status(site: Site, services: Sequence[Service]) -> dict[str, ServiceStatus]:
    """The state of each service by name, in start order."""
    return {service.name: service_status(site, service) for service in services}


def service_status(site: Site, service: Service) -> ServiceStatus:
    """The state of the service: `failing` if the watcher handles its end, `failed` if none runs."""
    log = str(site.log(service.name))
    stopped = ServiceStatus("stopped", None, service.address(site.settings), log)
    record = supervisor.read_service_record(site, service)
    if record is None:
        return stopped
    process = supervisor.working_process(site, service)
    if process is None:
        return _status_after_end(site, service, stopped)
    known = replace(stopped, pid=process.pid, since=_text(record.create_time))
    if not (record.ready or service.is_ready(site)):
        failing = read_restart_state(site, service)
        return replace(known, state="starting", reason=failing.reason if failing else None)
    if found := _read_stall(site, service):
        seconds, reason = found
        since = _text(time.time() - seconds)
        return replace(known, state="stalled", since=since, reason=reason)
    return replace(known, state="running")


def _status_after_end(site: Site, service: Service, stopped: ServiceStatus) -> ServiceStatus:
    code, reason = supervisor.exit_reason(site, service)
    known = read_restart_state(site, service)
    is_final = code == REFUSED or (known is not None and known.given_up)
    ended = replace(stopped, since=_text(known.since) if known else None, reason=reason)
    if not is_final and not watcher_runs(site):
        return replace(ended, state="failed")
    failing = replace(ended, state="failing", reason=known.reason if known else reason)
    # Without an instant the watcher has not checked yet: it will within a second.
    next_try = known.next_try if known and known.next_try else time.time()
    return failing if is_final else replace(failing, next_try=_text(next_try))


def _read_stall(site: Site, service: Service) -> tuple[float, str] | None:
    """Seconds without work and the evidence; None while the service works or is idle."""
    after = site.settings.stalled_after_seconds
    if found := heartbeat.find_stall(site.trace(service.name, supervisor.HEARTBEAT), after):
        return found
    # A service with a heartbeat is judged by it; for others the watcher notes since when they are
    # silent.
    silent = site.trace(service.name, supervisor.SILENT)
    seconds = time.time() - silent.stat().st_mtime if silent.exists() else 0.0
    return (seconds, f"has not answered for {seconds:.0f} s") if seconds > after else None


def _text(instant: float) -> str:
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
