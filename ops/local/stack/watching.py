"""The watcher as a process: one for each TALLY_HOME, started by `tally up`.

It ends when nothing is left to watch.
"""

import signal
import sys
from pathlib import Path

from ops.local.stack import processes
from ops.local.stack.service import Site
from runtime.repository import python_path

NAME = "watcher"
STOP_SECONDS = 5.0


def record_file(site: Site) -> Path:
    """Where the running watcher's process is recorded."""
    return site.trace(NAME, "json")


def runs(site: Site) -> bool:
    """Whether a watcher is at work."""
    return processes.process_of(processes.read_record(record_file(site))) is not None


def ensure(site: Site) -> None:
    """A watcher runs, if something was started and not stopped. For who holds the stack's lock."""
    # Under the lock, else two callers of `up` would leave two watchers.
    if anything_wanted(site) and not runs(site):
        own = {
            "PYTHONPATH": python_path(site.environment),
            processes.MARK: f"{site.home}:{NAME}",
            "TALLY_HOME": str(site.home),
        }
        argv = (sys.executable, "-m", "ops.local.stack.watcher")
        record = processes.start_detached(argv, {**site.environment, **own}, site.log(NAME))
        processes.write_record(record_file(site), record)


def end_if_idle(site: Site) -> None:
    """No watcher runs once everything was stopped.

    For who holds the stack's lock, under which it begins nothing.
    """
    if anything_wanted(site):
        return
    # Under the lock: whatever the watcher has begun is in the records by now.
    process = processes.process_of(processes.read_record(record_file(site)))
    if process is not None:
        processes.send(process, signal.SIGTERM)
        processes.wait_until_ended([process], STOP_SECONDS)
    record_file(site).unlink(missing_ok=True)


def anything_wanted(site: Site) -> bool:
    """Whether a service was started and not stopped."""
    return any(file.stem != NAME for file in site.run("").glob("*.json"))
