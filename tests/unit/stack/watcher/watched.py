"""What the tests of the watcher and of the states share."""

import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from ops.local.processes import processes, supervisor
from ops.local.processes.service import Service, Site
from ops.local.stack.control import ServiceStatus, service_status
from ops.local.stack.watcher import RestartPolicy, Watcher, watcher_file

SOON = RestartPolicy(first_seconds=0.05, most_seconds=0.2, tries=3, steady_seconds=0.3)
REFUSES = """printf '{"code": 78, "reason": "sales-0 has a hole"}' > $TALLY_EXIT_FILE; exit 78"""


class Disk(NamedTuple):
    """What shutil.disk_usage() tells, in bytes."""

    total: int
    used: int
    free: int


def kill(site: Site, service: Service) -> int:
    """SIGKILL to the service; the pid that it had."""
    process = supervisor.working_process(site, service)
    assert process is not None
    process.send_signal(signal.SIGKILL)
    processes.wait_until_ended([process], 5)
    return process.pid


def as_if_watched(site: Site) -> None:
    """A process that does nothing stands as the watcher, until `down`."""
    idle = processes.start_detached(("/bin/sleep", "60"), {}, site.log("watcher"))
    processes.write_record(watcher_file(site), idle)


def status(site: Site, service: Service) -> ServiceStatus:
    return service_status(site, service)


def until(condition: Callable[[], bool], watcher: Watcher, seconds: float = 10) -> None:
    """Looks until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        watcher.check_services()
        time.sleep(0.02)
