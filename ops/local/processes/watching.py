"""The watcher's process: one per TALLY_HOME, started by `tally up`.

It ends when no service is left to watch.
"""

import signal
import sys
from pathlib import Path

from ops.local.processes import processes
from ops.local.processes.service import Site
from runtime.process.repository import python_path

NAME = "watcher"
STOP_SECONDS = 5.0


def record_file(site: Site) -> Path:
    """The file with the record of the running watcher's process."""
    return site.trace(NAME, "json")


def is_running(site: Site) -> bool:
    """Whether a watcher runs."""
    return processes.find_recorded_process(processes.read_record(record_file(site))) is not None


def ensure_watcher(site: Site) -> None:
    """Start a watcher if a service was started and not stopped, and none runs.

    The caller must hold the stack's lock.
    """
    # Under the lock, else two callers of `up` would leave two watchers.
    if has_started_services(site) and not is_running(site):
        variables = {
            "PYTHONPATH": python_path(site.environment),
            processes.MARK: f"{site.home}:{NAME}",
            "TALLY_HOME": str(site.home),
        }
        argv = (sys.executable, "-m", "ops.local.stack.watcher")
        record = processes.start_detached(argv, {**site.environment, **variables}, site.log(NAME))
        processes.write_record(record_file(site), record)


def end_if_idle(site: Site) -> None:
    """End the watcher if every service was stopped.

    The caller must hold the stack's lock, under which the watcher starts nothing.
    """
    if has_started_services(site):
        return
    # Under the lock all services that the watcher started are in the records.
    process = processes.find_recorded_process(processes.read_record(record_file(site)))
    if process is not None:
        processes.send(process, signal.SIGTERM)
        processes.wait_until_ended([process], STOP_SECONDS)
    record_file(site).unlink(missing_ok=True)


def has_started_services(site: Site) -> bool:
    """Whether a service was started and not stopped."""
    return any(file.stem != NAME for file in site.run("").glob("*.json"))
