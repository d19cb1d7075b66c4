"""The state of a service for `tally status`; reading it has no side effect.

It is derived from the service's record, its heartbeat and the watcher's files.
"""

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

import psutil

from ops.local.processes import supervisor, watching
from ops.local.processes.service import Service, Site
from ops.local.stack.watcher import read_restart_state
from runtime.process import heartbeat
from runtime.process.job import REFUSED

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


def service_status(site: Site, service: Service) -> ServiceStatus:
    """The current state of the service.

    `failing`: it ended by itself and the watcher handles it; `failed`: no watcher runs.
    """
    record = supervisor.read_service_record(site, service)
    if record is None:
        return _status(site, service, "stopped")
    process = supervisor.working_process(site, service)
    if process is None:
        return _status_after_end(site, service)
    if not (record.ready or service.is_ready(site)):
        failing = read_restart_state(site, service)
        return _status(
            site,
            service,
            "starting",
            process,
            _text(record.create_time),
            failing.reason if failing else None,
        )
    if found := _read_stall(site, service):
        seconds, reason = found
        return _status(site, service, "stalled", process, _text(time.time() - seconds), reason)
    return _status(site, service, "running", process, _text(record.create_time))


def _status_after_end(site: Site, service: Service) -> ServiceStatus:
    code, reason = supervisor.exit_reason(site, service)
    known = read_restart_state(site, service)
    since = _text(known.since) if known else None
    if code == REFUSED or (known and known.given_up):
        return _status(site, service, "failing", None, since, known.reason if known else reason)
    if not watching.is_running(site):
        return _status(site, service, "failed", None, since, reason)
    # Without an instant the watcher has not checked yet: it will within a second.
    next_try = known.next_try if known and known.next_try else time.time()
    return replace(
        _status(site, service, "failing", None, since, known.reason if known else reason),
        next_try=_text(next_try),
    )


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


def _status(
    site: Site,
    service: Service,
    state: ServiceState,
    process: psutil.Process | None = None,
    *details: str | None,
) -> ServiceStatus:
    pid, log = process.pid if process else None, str(site.log(service.name))
    return ServiceStatus(state, pid, service.address(site.settings), log, *details)


def _text(instant: float) -> str:
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
