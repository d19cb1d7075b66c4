"""`up`, `down` and `status` of the whole stack, with start order, deadlines and a lock.

A status has no side effect: it follows from the service's record, its heartbeat and the watcher's
files.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from ops.local.processes import supervisor, watching
from ops.local.processes.service import Service, Site
from ops.local.stack.watcher import read_restart_state
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


@dataclass
class _StartProgress:
    """The progress of `up`: services by state, start times, and reasons of failures.

    `already_running` are services that ran before, `restarted` those that had to be restarted.
    """

    waiting: list[Service]
    started: dict[str, tuple[Service, float]] = field(default_factory=dict)
    already_running: set[str] = field(default_factory=set)
    restarted: set[str] = field(default_factory=set)
    ready: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)


def up(site: Site, services: Sequence[Service], tell: Tell) -> None:
    """Start every service of `services`, needs included, and wait until they are ready.

    Services that run already keep their process.

    Raises StackError, with the name of each service that did not come up, after the others have.
    """
    with supervisor.lock_stack(site):
        progress = _StartProgress(list(services))
        while progress.waiting or progress.started:
            _start_what_can_start(site, progress, tell)
            _check_started(site, progress, tell)
            if progress.started:
                time.sleep(LOOK_EVERY_SECONDS)
    if progress.failed:
        raise StackError("; ".join(f"{name}: {reason}" for name, reason in progress.failed.items()))


def down(site: Site, services: Sequence[Service], tell: Tell) -> None:
    """Stop the services, and all processes that they started.

    A service ends after those that need it, Kafka last.
    """
    with supervisor.lock_stack(site):
        left = list(services)
        while left:
            needed = {need for service in left for need in service.needs}
            # Kafka stops alone and last: services that shut down may still commit to it.
            wave = [
                service
                for service in left
                if service.name not in needed and (service.name != "kafka" or len(left) == 1)
            ]
            stopping = [(service, supervisor.ask_to_stop(site, service)) for service in wave]
            for service, process in stopping:
                supervisor.finish_stop(site, service, process)
                if process is not None:
                    tell(f"{service.name}: stopped")
            left = [service for service in left if service not in wave]
        watching.end_if_idle(site)


def watch(site: Site) -> None:
    """Start the watcher, which restarts services that end by themselves."""
    with supervisor.lock_stack(site):
        watching.ensure_watcher(site)


def status(site: Site, services: Sequence[Service]) -> dict[str, ServiceStatus]:
    """The state of each service by name, in start order."""
    return {service.name: service_status(site, service) for service in services}


def service_status(site: Site, service: Service) -> ServiceStatus:
    """The current state of the service.

    `failing`: it ended by itself and the watcher handles it; `failed`: no watcher runs.
    """
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
    if not is_final and not watching.is_running(site):
        return replace(ended, state="failed")
    failing = replace(ended, state="failing", reason=known.reason if known else reason)
    # Without an instant the watcher has not checked yet: it will within a second.
    next_try = known.next_try if known and known.next_try else time.time()
    return failing if is_final else replace(failing, next_try=_text(next_try))


def _read_stall(site: Site, service: Service) -> tuple[float, str] | None:
    """For how many seconds the service has done no work, and the evidence.

    None while it works or is idle.
    """
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


def _start_what_can_start(site: Site, progress: _StartProgress, tell: Tell) -> None:
    for service in list(progress.waiting):
        broken = [need for need in service.needs if need in progress.failed]
        if broken:
            progress.waiting.remove(service)
            progress.failed[service.name] = f"not started, it needs {', '.join(broken)}"
        elif set(service.needs) <= progress.ready:
            progress.waiting.remove(service)
            _start(site, service, progress, tell)


def _start(site: Site, service: Service, progress: _StartProgress, tell: Tell) -> None:
    try:
        if supervisor.is_alive(site, service):
            progress.already_running.add(service.name)
        else:
            tell(f"{service.name}: starting")
            # A start by hand resets the count: earlier tries do not matter.
            site.trace(service.name, supervisor.FAILING).unlink(missing_ok=True)
            supervisor.start(site, service)
        progress.started[service.name] = (service, time.monotonic())
    except TallyError as error:
        progress.failed[service.name] = str(error).removeprefix(f"{service.name}: ")


def _check_started(site: Site, progress: _StartProgress, tell: Tell) -> None:
    for name, (service, since) in list(progress.started.items()):
        seconds = time.monotonic() - since
        try:
            if _is_ready(site, service, seconds):
                # This also runs for a service that ran before: changed settings must reach existing
                # topics.
                service.once_ready(site)
                progress.ready.add(name)
                how = (
                    "runs already"
                    if name in progress.already_running
                    else f"ready after {seconds:.1f} s"
                )
                tell(f"{name}: {how}{_address_text(site, service)}")
            else:
                continue
        except RestartNeeded as error:
            _restart(site, service, progress, tell, error)
            continue
        except TallyError as error:
            progress.failed[name] = str(error).removeprefix(f"{name}: ")
        del progress.started[name]


def _restart(
    site: Site, service: Service, progress: _StartProgress, tell: Tell, why: RestartNeeded
) -> None:
    """Restart the service once; a second request counts as a failure."""
    del progress.started[service.name]
    if service.name in progress.restarted:
        progress.failed[service.name] = str(why)
        return
    tell(f"{service.name}: restarting ({why})")
    progress.restarted.add(service.name)
    progress.already_running.discard(service.name)
    supervisor.finish_stop(site, service, supervisor.ask_to_stop(site, service))
    _start(site, service, progress, tell)


def _is_ready(site: Site, service: Service, seconds: float) -> bool:
    """Whether the service is ready. Raises StackError if it ended or missed its deadline."""
    # Checked first: a ready file outlives the process that has touched it.
    if not supervisor.is_alive(site, service):
        raise StackError(
            f"ended while it started ({supervisor.exit_reason(site, service)[1]});"
            f" see {site.log(service.name)}"
        )
    if supervisor.is_ready(site, service):
        return True
    if seconds > service.start_seconds:
        raise StackError(
            f"not ready after {service.start_seconds:.0f} s;"
            f" see {site.log(service.name)}, then run `up` again"
        )
    return False


def _address_text(site: Site, service: Service) -> str:
    address = service.address(site.settings)
    return f" at {address}" if address else ""
