"""Start and stop one service, by its record and its mark; what it leaves about its end."""

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import psutil

from ops.local.stack import processes
from ops.local.stack.addresses import variable
from ops.local.stack.machine import port_is_free
from ops.local.stack.processes import Record
from ops.local.stack.service import Launch, Service, Site
from tally.errors import StackError

LOG_LINES = 3
DYING_SECONDS = 10
LOG_BYTES = 16_384
# What a run of a service leaves beside its record, by the ending of the file's name; gone before
# the next start.
READY, HEARTBEAT, EXIT, SILENT = "ready", "heartbeat", "exit", "silent"
# What the watcher keeps over several runs: `up` and `down` by hand end it.
FAILING = "failing"
# Each is given only to the service that names it; whoever reads the environment of another does not
# find it.
SECRETS = ("TALLY_LOYALTY_KEY", "TALLY_VENDOR_SECRETS")


def start(site: Site, service: Service) -> None:
    """The service started, after the last process of an earlier run has ended.

    Raises StackError (busy port, no Java, …).
    """
    _clear_the_way(site, service)
    _spawn(site, service, service.launch(site))


def start_again(site: Site, service: Service, environment: Mapping[str, str]) -> None:
    """The service started as it was.

    It has the command of its record, and this environment of its earlier process. Raises StackError
    when it never was, or cannot start.
    """
    record = record_of(site, service)
    if record is None:
        raise StackError(f"{service.name}: was never started; run `tally up {service.name}`")
    _clear_the_way(site, service)
    _spawn(replace(site, environment={}), service, Launch(record.argv, environment))


def record_of(site: Site, service: Service) -> Record | None:
    """What was started last and not stopped; None if nothing was."""
    return processes.read_record(_record_file(site, service))


def at_work(site: Site, service: Service) -> psutil.Process | None:
    """The recorded process; None once it has ended, or its JVM has.

    After its JVM a driver only ends in its own time.
    """
    record = record_of(site, service)
    process = processes.process_of(record)
    if process is None or record is None or not (service.spark_driver and record.ready):
        return process
    return process if processes.has_jvm(process) else None


def is_alive(site: Site, service: Service) -> bool:
    """Whether the recorded process runs, and below a Spark driver its JVM."""
    return at_work(site, service) is not None


def is_ready(site: Site, service: Service) -> bool:
    """Whether the service does its work now.

    That is remembered in its record, so only for who holds the stack's lock.
    """
    record = record_of(site, service)
    # Remembered below: one that was ready and is slow to answer now is not starting.
    if record is None or not service.is_ready(site):
        return False
    processes.write_record(
        _record_file(site, service), Record(record.pid, record.create_time, record.argv, ready=True)
    )
    return True


def ask_to_stop(site: Site, service: Service) -> psutil.Process | None:
    """The recorded process, told to end in its own time; None if it has ended already."""
    process = processes.process_of(record_of(site, service))
    if process is not None:
        processes.send(process, service.stop_signal)
    return process


def finish_stop(site: Site, service: Service, process: psutil.Process | None) -> None:
    """Block until nothing of the service is left: it, its children, JVMs of dead drivers.

    Its data and log stay.
    """
    if process is not None:
        processes.wait_until_ended([process], service.stop_seconds)
    processes.end_leftovers(_mark(site, service))
    _forget_the_run(site, service)
    site.trace(service.name, FAILING).unlink(missing_ok=True)
    # The record last: as long as it is there, an interrupted `down` begins here again.
    _record_file(site, service).unlink(missing_ok=True)


def why_ended(site: Site, service: Service) -> tuple[int | None, str]:
    """Exit code and reason that the service left, else None and the end of its log on one line."""
    file = site.trace(service.name, EXIT)
    if file.exists():
        left = json.loads(file.read_text("utf-8"))
        return int(left["code"]), str(left["reason"])
    return None, last_words(site, service)


def last_words(site: Site, service: Service) -> str:
    """The end of the service's log, on one line."""
    log = site.log(service.name)
    if not log.exists():
        return "nothing logged"
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - LOG_BYTES))
        lines = file.read().decode("utf-8", errors="replace").splitlines()
    return (
        " | ".join(
            [line.strip() for line in lines if line.strip()][-LOG_LINES:],
        )
        or "nothing logged"
    )


def _clear_the_way(site: Site, service: Service) -> None:
    processes.end_leftovers(_mark(site, service))
    # After the leftovers: a JVM of the last run may still hold the port.
    _check_ports(site, service)
    site.run("").mkdir(parents=True, exist_ok=True)
    _forget_the_run(site, service)


def _spawn(site: Site, service: Service, command: Launch) -> None:
    own = {
        processes.MARK: _mark(site, service),
        "TALLY_HOME": str(site.home),
        "TALLY_CACHE": str(site.settings.cache),
        "TALLY_READY_FILE": str(site.trace(service.name, READY)),
        "TALLY_HEARTBEAT_FILE": str(site.trace(service.name, HEARTBEAT)),
        "TALLY_EXIT_FILE": str(site.trace(service.name, EXIT)),
        # A process that writes its title must not write it over its environment, where the mark is
        # read.
        "SPT_NOENV": "1",
    }
    # The own ones last: a caller's TALLY_HOME must not lead a service into another home.
    given = {**site.environment, **command.environment, **own}
    environment = {
        name: value
        for name, value in given.items()
        if name not in SECRETS or name in service.secrets
    }
    record = processes.start_detached(command.argv, environment, site.log(service.name))
    processes.write_record(_record_file(site, service), record)


def _forget_the_run(site: Site, service: Service) -> None:
    for kind in (READY, HEARTBEAT, EXIT, SILENT):
        site.trace(service.name, kind).unlink(missing_ok=True)


def _check_ports(site: Site, service: Service) -> None:
    for name, (host, port) in service.ports(site.settings).items():
        if not _is_free_by_then(host, port):
            raise StackError(
                f"{service.name}: port {port} on {host} is busy{_named(_holders(port))};"
                f" end what holds it or set {variable(name)}={host}:PORT"
            )


def _is_free_by_then(host: str, port: int) -> bool:
    """Whether the port is free, now or when what is being killed has ended.

    Of a JVM the first thread may be gone, and with it all that anybody sees of what it had open,
    long before the last one: until then the port is busy, and nobody can be named.
    """
    deadline = time.monotonic() + DYING_SECONDS
    while not (is_free := port_is_free(host, port)) and not _holders(port):
        if time.monotonic() >= deadline:
            break
        time.sleep(processes.LOOK_EVERY_SECONDS)
    return is_free


def _holders(port: int) -> list[int]:
    """Pids, as far as they can be named."""
    try:
        found = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        return []  # some systems show other users' connections to root only
    at_port = [one for one in found if one.laddr and one.laddr.port == port]
    return sorted({one.pid for one in at_port if one.pid})


def _named(pids: list[int]) -> str:
    return f" (pid {', '.join(map(str, pids))})" if pids else ""


def _mark(site: Site, service: Service) -> str:
    return f"{site.home}:{service.name}"


def _record_file(site: Site, service: Service) -> Path:
    return site.trace(service.name, "json")
