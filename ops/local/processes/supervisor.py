"""Start and stop of one service by its record and mark, its end's reason; and the stack's lock."""

import fcntl
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import psutil

from ops.local.machine import explain_unwritable, make_private, port_is_free
from ops.local.processes import processes
from ops.local.processes.addresses import variable
from ops.local.processes.processes import Record
from ops.local.processes.service import Launch, Service, Site
from tally.errors import StackError

LOG_LINES = 3
DYING_SECONDS = 10
LOG_BYTES = 16_384
# File name endings of what a run of a service leaves beside its record; removed before the next
# start.
READY, HEARTBEAT, EXIT, SILENT = "ready", "heartbeat", "exit", "silent"
# The watcher's file over several runs: `up` and `down` by hand remove it.
FAILING = "failing"
# Each secret is given only to the service that names it, so that it is not in the environment of
# other processes.
SECRETS = ("TALLY_LOYALTY_KEY", "TALLY_VENDOR_SECRETS")


def start(site: Site, service: Service) -> None:
    """Start the service after its earlier run has ended. Raises StackError when it cannot."""
    _prepare_start(site, service)
    _spawn(site, service, service.launch(site))


def restart(site: Site, service: Service, environment: Mapping[str, str]) -> None:
    """Start by the record, in the environment of the earlier process. Raises StackError."""
    record = read_service_record(site, service)
    if record is None:
        raise StackError(f"{service.name}: was never started; run `tally up {service.name}`")
    _prepare_start(site, service)
    _spawn(replace(site, environment={}), service, Launch(record.argv, environment))


def read_service_record(site: Site, service: Service) -> Record | None:
    """The record of the last start; None if the service was stopped or never started."""
    return processes.read_record(_record_file(site, service))


def working_process(site: Site, service: Service) -> psutil.Process | None:
    """The recorded process; None once it, or its JVM, which may end before it, has ended."""
    record = read_service_record(site, service)
    process = processes.find_recorded_process(record)
    if process is None or record is None or not (service.spark_driver and record.ready):
        return process
    return process if processes.has_jvm(process) else None


def is_alive(site: Site, service: Service) -> bool:
    """Whether the recorded process runs, and for a Spark driver also its JVM."""
    return working_process(site, service) is not None


def is_ready(site: Site, service: Service) -> bool:
    """Whether the service is ready; stored in its record, for which the stack must be locked."""
    record = read_service_record(site, service)
    # Stored below: a service that was ready and is slow to answer now is not starting.
    if record is None or not service.is_ready(site):
        return False
    ready = msgspec.structs.replace(record, ready=True)
    processes.write_record(_record_file(site, service), ready)
    return True


def ask_to_stop(site: Site, service: Service) -> psutil.Process | None:
    """Send the stop signal to the recorded process; None if it has ended already."""
    process = processes.find_recorded_process(read_service_record(site, service))
    if process is not None:
        processes.send(process, service.stop_signal)
    return process


def finish_stop(site: Site, service: Service, process: psutil.Process | None) -> None:
    """Block until no process of the service is left, orphaned JVMs too; its data and log stay."""
    if process is not None:
        processes.wait_until_ended([process], service.stop_seconds)
    processes.end_leftovers(_mark(site, service))
    _remove_run_files(site, service)
    site.trace(service.name, FAILING).unlink(missing_ok=True)
    # The record is removed last: while it exists, an interrupted `down` can be repeated.
    _record_file(site, service).unlink(missing_ok=True)


def exit_reason(site: Site, service: Service) -> tuple[int | None, str]:
    """The exit code and reason that the service left, else None and the end of its log."""
    file, log = site.trace(service.name, EXIT), site.log(service.name)
    if file.exists():
        left = json.loads(file.read_text("utf-8"))
        return int(left["code"]), str(left["reason"])
    if not log.exists():
        return None, "nothing logged"
    with log.open("rb") as content:
        content.seek(max(0, log.stat().st_size - LOG_BYTES))
        lines = content.read().decode("utf-8", errors="replace").splitlines()
    written = [line.strip() for line in lines if line.strip()]
    return None, " | ".join(written[-LOG_LINES:]) or "nothing logged"


def _prepare_start(site: Site, service: Service) -> None:
    processes.end_leftovers(_mark(site, service))
    # Checked after the leftovers ended: a JVM of the last run may still hold the port.
    _check_ports(site, service)
    site.run("").mkdir(parents=True, exist_ok=True)
    _remove_run_files(site, service)


def _spawn(site: Site, service: Service, command: Launch) -> None:
    service_variables = {
        processes.MARK: _mark(site, service),
        "TALLY_HOME": str(site.home),
        "TALLY_CACHE": str(site.settings.cache),
        "TALLY_READY_FILE": str(site.trace(service.name, READY)),
        "TALLY_HEARTBEAT_FILE": str(site.trace(service.name, HEARTBEAT)),
        "TALLY_EXIT_FILE": str(site.trace(service.name, EXIT)),
        # A process that sets its title must not overwrite its environment, where the mark is
        # read.
        "SPT_NOENV": "1",
    }
    # The service's own variables come last: a caller's TALLY_HOME must not lead it into another
    # home.
    variables = {**site.environment, **command.environment, **service_variables}
    environment = {
        name: value
        for name, value in variables.items()
        if name not in SECRETS or name in service.secrets
    }
    record = processes.start_detached(command.argv, environment, site.log(service.name))
    processes.write_record(_record_file(site, service), record)


def _remove_run_files(site: Site, service: Service) -> None:
    for kind in (READY, HEARTBEAT, EXIT, SILENT):
        site.trace(service.name, kind).unlink(missing_ok=True)


def _check_ports(site: Site, service: Service) -> None:
    for name, (host, port) in service.ports(site.settings).items():
        if not _is_free_by_then(host, port):
            pids = ", ".join(map(str, _holders(port)))
            raise StackError(
                f"{service.name}: port {port} on {host} is busy{f' (pid {pids})' if pids else ''};"
                f" end what holds it or set {variable(name)}={host}:PORT"
            )


def _is_free_by_then(host: str, port: int) -> bool:
    """Whether the port is free, now or when a killed process has ended.

    The first thread of a JVM may be gone, and with it the visible list of its open files, long
    before the last thread: until then the port is busy, and its holder cannot be named.
    """
    deadline = time.monotonic() + DYING_SECONDS
    while not (is_free := port_is_free(host, port)) and not _holders(port):
        if time.monotonic() >= deadline:
            break
        time.sleep(processes.LOOK_EVERY_SECONDS)
    return is_free


def _holders(port: int) -> list[int]:
    """The pids of the processes at the port, as far as they are visible."""
    try:
        found = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        return []  # some systems show other users' connections to root only
    at_port = (entry for entry in found if entry.laddr and entry.laddr.port == port)
    return sorted({entry.pid for entry in at_port if entry.pid})


def _mark(site: Site, service: Service) -> str:
    return f"{site.home}:{service.name}"


def _record_file(site: Site, service: Service) -> Path:
    return site.trace(service.name, "json")


@contextmanager
def lock_stack(site: Site) -> Iterator[None]:
    """Hold the stack's lock, so that it is not started twice. Raises StackError."""
    with explain_unwritable(site.home, "set TALLY_HOME", PermissionError):
        make_private(site.home)
        site.run("lock").parent.mkdir(exist_ok=True)
        with site.run("lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


@contextmanager
def try_lock_stack(site: Site) -> Iterator[bool]:
    """Yield whether the stack's lock could be taken. Raises FileNotFoundError without a home."""
    # r+ does not create the file: a watcher must not re-create its deleted home.
    with site.run("lock").open("r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
