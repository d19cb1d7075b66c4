"""Start, watch and stop one service by its record and its mark."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from ops.stack import processes
from ops.stack.addresses import variable
from ops.stack.machine import port_is_free
from ops.stack.processes import Record
from ops.stack.service import Service, Site
from tally.errors import StackError

State = Literal["running", "starting", "stopped", "failed"]
LOG_LINES = 3


@dataclass(frozen=True)
class Status:
    """One line of `tally status`: pid is a process whose SIGKILL ends the service, None when it does not run."""

    state: State
    pid: int | None
    address: str | None
    log: str


def status_of(site: Site, service: Service) -> Status:
    """The state now: failed = it was started and has ended without `down`."""
    record = processes.read_record(_record_file(site, service))
    process = _at_work(service, record)
    state: State
    if record is None:
        state = "stopped"
    elif process is None:
        state = "failed"
    else:
        state = "running" if record.ready or is_ready(site, service) else "starting"
    return Status(state, process.pid if process else None, service.address(site.settings), str(site.log(service.name)))


def start(site: Site, service: Service) -> None:
    """The service started, after the last process of an earlier run has ended. Raises StackError (busy port, no Java, …)."""
    processes.end_leftovers(_mark(site, service))
    _check_ports(site, service)
    ready_file(site, service).parent.mkdir(parents=True, exist_ok=True)
    ready_file(site, service).unlink(missing_ok=True)
    command = service.launch(site)
    own = {
        processes.MARK: _mark(site, service),
        "TALLY_HOME": str(site.home),
        "TALLY_CACHE": str(site.settings.cache),
        "TALLY_READY_FILE": str(ready_file(site, service)),
        # A process that writes its title must not write it over its environment, where the mark is read.
        "SPT_NOENV": "1",
    }
    environment = {**site.environment, **command.environment, **own}
    record = processes.start_detached(command.argv, environment, site.log(service.name))
    processes.write_record(_record_file(site, service), record)


def is_alive(site: Site, service: Service) -> bool:
    """Whether the recorded process runs, and below a Spark driver its JVM."""
    return _at_work(service, processes.read_record(_record_file(site, service))) is not None


def is_ready(site: Site, service: Service) -> bool:
    """Whether the service does its work now; remembered in its record."""
    record = processes.read_record(_record_file(site, service))
    if record is None or not service.is_ready(site):
        return False
    processes.write_record(_record_file(site, service), Record(record.pid, record.create_time, record.argv, ready=True))
    return True


def ready_file(site: Site, service: Service) -> Path:
    """The file that a service without HTTP touches once it has reached what it needs."""
    return site.run(f"{service.name}.ready")


def ask_to_stop(site: Site, service: Service) -> psutil.Process | None:
    """The recorded process, told to end in its own time; None if it has ended already."""
    process = processes.process_of(processes.read_record(_record_file(site, service)))
    if process is not None:
        processes.send(process, service.stop_signal)
    return process


def finish_stop(site: Site, service: Service, process: psutil.Process | None) -> None:
    """Nothing of the service is left: it, its children, JVMs of dead drivers. Its data and log stay."""
    if process is not None:
        processes.wait_until_ended([process], service.stop_seconds)
    processes.end_leftovers(_mark(site, service))
    ready_file(site, service).unlink(missing_ok=True)
    _record_file(site, service).unlink(missing_ok=True)


def last_words(site: Site, service: Service) -> str:
    """The end of the service's log, on one line."""
    log = site.log(service.name)
    lines = log.read_text("utf-8", errors="replace").splitlines() if log.exists() else []
    return " | ".join([line.strip() for line in lines if line.strip()][-LOG_LINES:]) or "nothing logged"


def _at_work(service: Service, record: Record | None) -> psutil.Process | None:
    """The recorded process; None once it has ended, or its JVM has, after which a driver only ends in its own time."""
    process = processes.process_of(record)
    if process is None or record is None or not (service.spark_driver and record.ready):
        return process
    return process if processes.has_jvm(process) else None


def _check_ports(site: Site, service: Service) -> None:
    for name, (host, port) in service.ports(site.settings).items():
        if not port_is_free(host, port):
            raise StackError(
                f"{service.name}: port {port} on {host} is busy{_holder(port)}; end what holds it or set {variable(name)}={host}:PORT"
            )


def _holder(port: int) -> str:
    try:
        pids = {item.pid for item in psutil.net_connections("tcp") if item.laddr and item.laddr.port == port and item.pid}
    except psutil.AccessDenied:
        return ""  # some systems show other users' connections to root only
    return f" (pid {', '.join(map(str, sorted(pids)))})" if pids else ""


def _mark(site: Site, service: Service) -> str:
    return f"{site.home}:{service.name}"


def _record_file(site: Site, service: Service) -> Path:
    return site.run(f"{service.name}.json")
