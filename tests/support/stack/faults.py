"""One fault of one service under load, and how long it took until everything that was
acknowledged before was served again."""

import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import httpx
import psutil

from ops.local.processes.processes import send
from tests.support import http
from tests.support.clients.live_load import STORES, LiveLoad
from tests.support.stack.loop import Loop, wait_until

FREEZE_SECONDS = 20.0
BACK_SECONDS = 300.0
# At a load of 27 on two cores a rebuild of one minute took 309 s (seen).
REBUILT_SECONDS = 900.0
REBUILD_EVERY_SECONDS = 10.0


@dataclass(frozen=True)
class Outcome:
    """How a fault went: seconds until the service ran again, and until all that was sold before
    then was served."""

    service: str
    fault: str
    running_after: float
    served_after: float

    def __str__(self) -> str:
        return (
            f"{self.service:<11} {self.fault:<8} running after {self.running_after:6.1f} s, all"
            f" served after {self.served_after:6.1f} s"
        )


class Rebuilds:
    """`tally rebuild --dirty` again and again, as somebody hasty would have it; a fault may end
    one, the next goes on."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._stop = threading.Event()
        self.codes: Counter[int] = Counter()
        self.running: subprocess.Popen[str] | None = None

    @contextmanager
    def repeated(self) -> Iterator[None]:
        """Rebuilds until the block ends."""
        thread = threading.Thread(target=self._repeat)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _repeat(self) -> None:
        while not self._stop.is_set():
            started = time.monotonic()
            self.running = self._loop.start("rebuild", "--dirty", "--json")
            self.running.communicate()
            self.codes[self.running.returncode] += 1
            self._stop.wait(max(0.0, REBUILD_EVERY_SECONDS - (time.monotonic() - started)))


def tree(pid: int) -> list[psutil.Process]:
    """A process and all below it; those below first, so that none is left without its parent
    half stopped."""
    top = psutil.Process(pid)
    return [*reversed(top.children(recursive=True)), top]


def pause(seconds: float) -> None:
    """Return after so many seconds: the fault itself lasts that long."""
    threading.Event().wait(seconds)


def strike(pid: int, fault: str) -> None:
    """SIGKILL of the one process whose end ends the service, or SIGSTOP of all of it for a
    while."""
    if fault == "SIGKILL":
        send(psutil.Process(pid), signal.SIGKILL)
        return
    frozen = tree(pid)
    for process in frozen:
        send(process, signal.SIGSTOP)
    pause(FREEZE_SECONDS)
    for process in frozen:
        send(process, signal.SIGCONT)


def suffered(loop: Loop, load: LiveLoad, service: str, fault: str) -> Outcome:
    """The fault done to a service, and its end waited for; nothing is started by hand."""
    old = loop.pid(service)
    strike(old, fault)
    started = time.monotonic()
    wait_until(
        lambda: is_back(loop, service, old if fault == "SIGKILL" else None),
        BACK_SECONDS,
        f"{service} runs again after {fault}",
    )
    running_after = time.monotonic() - started
    return Outcome(service, fault, running_after, running_after + seconds_until_served(loop, load))


def rebuild_suffered(loop: Loop, load: LiveLoad, rebuilds: Rebuilds, fault: str) -> Outcome:
    """The fault done to a running rebuild; a later one has to succeed."""
    struck = rebuild_under_way(rebuilds)
    before = rebuilds.codes[0]
    strike(struck.pid, fault)
    started = time.monotonic()
    wait_until(
        lambda: rebuilds.codes[0] > before,
        REBUILT_SECONDS,
        f"a rebuild succeeds after {fault} of one",
    )
    return Outcome("rebuild", fault, time.monotonic() - started, seconds_until_served(loop, load))


def rebuild_under_way(rebuilds: Rebuilds) -> "subprocess.Popen[str]":
    """A rebuild that began some seconds ago: late enough that it computes, and early enough that
    it has not ended."""
    before = rebuilds.running
    wait_until(lambda: rebuilds.running is not before, REBUILT_SECONDS, "another rebuild begins")
    found = rebuilds.running
    pause(8.0)
    assert found is not None and found.poll() is None, (
        "the rebuild has ended before it could be struck"
    )
    return found


def is_back(loop: Loop, service: str, old: int | None) -> bool:
    """Whether the service runs, under another pid than the old one."""
    state = loop.status()[service]
    return bool(state["state"] == "running" and state["pid"] != old)


def seconds_until_served(loop: Loop, load: LiveLoad) -> float:
    """How long until the API counts every receipt that is acknowledged now."""
    started, acknowledged = time.monotonic(), load.receipts
    wait_until(
        lambda: served_receipts(loop) >= acknowledged,
        BACK_SECONDS,
        f"{acknowledged:,} receipts are served",
    )
    return time.monotonic() - started


def served_receipts(loop: Loop) -> int:
    """Receipts of all live stores as the API has them now; 0 when it does not answer."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    asked = {
        "store": ",".join(STORES),
        "from": (today - timedelta(days=1)).isoformat(),
        "to": (today + timedelta(days=1)).isoformat(),
    }
    try:
        answer = http.get(
            f"http://{loop.settings.api}/v1/metrics/transactions",
            params={**asked, "limit": "10000"},
            timeout=30,
        )
    except httpx.TransportError:
        return 0
    if answer.status_code != httpx.codes.OK:
        return 0
    return sum(row["value"] or 0 for one in answer.json()["series"] for row in one["rows"])


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes, a line each."""
    return "\n".join(str(outcome) for outcome in outcomes)
