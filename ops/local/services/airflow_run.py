"""Airflow's scheduler, DAG processor and API server under one process, on loopback only.

It replaces `airflow standalone`, which also serves task logs on every network interface (no setting
turns that off) and runs a triggerer that no DAG of Tally needs.
"""

import logging
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from ops.local.processes import processes

AIRFLOW = str(Path(sys.executable).with_name("airflow"))
COMPONENTS = (("api-server",), ("scheduler", "--skip-serve-logs"), ("dag-processor",))
LOOK_EVERY_SECONDS, GUARD_EVERY_SECONDS = 0.5, 0.3
STOP_SECONDS = 20.0  # less than the supervisor's stop deadline for this process
# A rebuild that a task starts must not write its end, or a heartbeat, to Airflow's files.
OWN_FILES = ("TALLY_READY_FILE", "TALLY_HEARTBEAT_FILE", "TALLY_EXIT_FILE")

log = logging.getLogger("airflow_run")


def main() -> int:
    """Return 0 after SIGTERM, 1 when a component has ended by itself."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    _guard_components()
    for name in OWN_FILES:
        os.environ.pop(name, None)
    _migrate(Path(os.environ["AIRFLOW_HOME"]))
    running = {component[0]: subprocess.Popen([AIRFLOW, *component]) for component in COMPONENTS}
    try:
        while all(process.poll() is None for process in running.values()):
            time.sleep(LOOK_EVERY_SECONDS)
        codes = {name: process.returncode for name, process in running.items()}
        ended = {name: code for name, code in codes.items() if code is not None}
        log.error("ended by itself: %s", ended)
        return 1
    finally:
        _stop(list(running.values()))


def _guard_components() -> None:
    """Fork a child that ends all components when this process has ended, by SIGKILL too."""
    guarded, mark = os.getpid(), os.environ[processes.MARK]
    if os.fork():
        return
    # The guard must survive the signal that ends this process.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # When its parent dies, a process gets another parent.
    while os.getppid() == guarded:
        time.sleep(GUARD_EVERY_SECONDS)
    processes.end_leftovers(mark)
    os._exit(0)


def _migrate(home: Path) -> None:
    """Migrate the database once per Airflow version: even a check takes seconds."""
    stamp = home / "migrated"
    if not stamp.exists() or stamp.read_text() != version("apache-airflow"):
        subprocess.run([AIRFLOW, "db", "migrate"], check=True)
        stamp.write_text(version("apache-airflow"))


def _stop(components: list[subprocess.Popen[bytes]]) -> None:
    for process in components:
        process.terminate()
    # One deadline for all, because they end in parallel.
    deadline = time.monotonic() + STOP_SECONDS
    for process in components:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()


if __name__ == "__main__":
    sys.exit(main())
