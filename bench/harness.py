"""What every benchmark stands on: a broker and a Cassandra of its own, jobs run as processes, their numbers, and the oracle.

A contender is a job that reads the canonical topic `sales` and writes the table of the speed rows: Tally's own, that of another
checkout (`--against`), or a peer. Contenders read the same records in turn, each into a keyspace of its own; a run whose rows are not
those of the oracle has no number.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil
from cassandra.cluster import Session
from rich.console import Console
from rich.table import Table

from ops.stack import catalogue, control, provision
from ops.stack.addresses import settings_with_addresses
from ops.stack.service import Site
from ops.stack.supervisor import at_work
from speed_layer.source import retained
from tally.connect import cassandra_session
from tally.families import SALES
from tally.settings import Settings

ROOT = Path(__file__).parents[1]
READY_SECONDS, LOOK_SECONDS = 180, 0.1
# By store and start of the window (milliseconds since 1970): receipts and cents.
Totals = Mapping[tuple[str, int], tuple[int, int]]


@dataclass(frozen=True)
class Contender:
    """A job: how it is started, from which checkout."""

    name: str
    module: str
    folder: Path = ROOT

    @property
    def command(self) -> list[str]:
        """By the Python of its own checkout."""
        return [str(self.folder / ".venv" / "bin" / "python"), "-m", self.module]


@dataclass(frozen=True)
class Run:
    """One run: records a second from its readiness to its last committed record; seconds of processor time for a million; peak memory.

    `late` records were left out by the contender, and the oracle lets it.
    """

    per_second: float
    cpu_seconds: Mapping[str, float]
    peak_mib: Mapping[str, float]


@dataclass
class Bench:
    """A stack of its own, filled once."""

    site: Site
    settings: Settings
    environment: Mapping[str, str]
    records: int = 0
    runs: dict[str, list[Run]] = field(default_factory=dict)

    def measure(self, contender: Contender, expected: Totals, **overrides: str) -> Run:
        """A run of the contender into a new keyspace. Raises SystemExit when its rows are not the expected ones."""
        keyspace = f"bench_{time.monotonic_ns()}"
        settings = self.settings.model_copy(update={"keyspace": keyspace})
        provision.create_tables(settings)
        with tempfile.TemporaryDirectory(prefix="bench-checkpoints-") as folder, cassandra_session(settings) as session:
            variables = {"TALLY_KEYSPACE": keyspace, "TALLY_CHECKPOINTS": f"{folder}/checkpoints", "TALLY_READY_FILE": f"{folder}/ready"}
            with running(contender, {**self.environment, **variables, **overrides}, Path(folder)) as job:
                run = self._watch(job, session, settings)
            refuse_wrong_rows(contender.name, rows_of(session), expected)
            session.execute(f"DROP KEYSPACE {keyspace}", timeout=60)
        self.runs.setdefault(contender.name, []).append(run)
        return run

    def _watch(self, job: psutil.Process, session: Session, settings: Settings) -> Run:
        end, began = dict(retained(settings, SALES.topic).end), time.monotonic()
        others = {service.name: at_work(self.site, service) for service in catalogue.named(["kafka", "cassandra"])}
        before = {name: cpu_of(process) for name, process in others.items()}
        peaks: dict[str, float] = {}
        while reached(session) != end:
            for name, mib in memory_of(job).items():
                peaks[name] = max(peaks.get(name, 0.0), mib)
            if not job.is_running():
                raise SystemExit("the job has ended")
            time.sleep(LOOK_SECONDS)
        seconds = time.monotonic() - began
        cpu = {name: cpu_of(process) - before[name] for name, process in others.items()} | job_cpu(job)
        millions = self.records / 1e6
        return Run(self.records / seconds, {name: used / millions for name, used in cpu.items()}, peaks)


@contextmanager
def own_stack() -> Iterator[Bench]:
    """A broker and a Cassandra for one benchmark only; of TALLY's variables just the cache folder is inherited."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TALLY_") or name == "TALLY_CACHE"}
    with tempfile.TemporaryDirectory(prefix="bench-home-") as home:
        environment = {**kept, "TALLY_HOME": home}
        site = Site.of(settings_with_addresses(environment), environment)
        control.up(site, catalogue.named(["kafka", "cassandra"]), say)
        try:
            yield Bench(site, site.settings, environment)
        finally:
            control.down(site, catalogue.named(()), say)


@contextmanager
def running(contender: Contender, environment: Mapping[str, str], folder: Path) -> Iterator[psutil.Process]:
    """The contender's process once it is ready; killed with all its children at the end."""
    ready = Path(environment["TALLY_READY_FILE"])
    with (folder / "log").open("wb") as log:
        started = subprocess.Popen(contender.command, env={**environment}, cwd=contender.folder, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + READY_SECONDS
            while not ready.exists():
                if started.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{contender.name}: not ready; {(folder / 'log').read_text()[-2000:]}")
                time.sleep(LOOK_SECONDS)
            yield psutil.Process(started.pid)
        finally:
            for process in [psutil.Process(started.pid), *psutil.Process(started.pid).children(recursive=True)]:
                process.kill()
            started.wait(30)


def reached(session: Session) -> dict[int, int]:
    """First offset not yet in the view, by partition."""
    rows = session.execute("SELECT partition, until FROM speed_progress WHERE family = 'sales'")
    return {row.partition: row.until for row in rows}


def rows_of(session: Session) -> dict[tuple[str, int], tuple[int, int]]:
    """Receipts and cents of every window of the table, over all currencies."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for row in session.execute("SELECT store_id, window_start, receipts, gross_minor FROM sales_15min"):
        key = row.store_id, int(row.window_start.timestamp() * 1000)
        receipts, cents = found.get(key, (0, 0))
        found[key] = receipts + row.receipts, cents + row.gross_minor
    return found


def refuse_wrong_rows(name: str, found: Totals, expected: Totals) -> None:
    """Nothing if every window is as expected; says how many were compared. Raises SystemExit."""
    wrong = [key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)]
    say(f"{name}: {len(expected):,} windows compared, {len(wrong):,} differ")
    if wrong:
        raise SystemExit(f"{name}: e.g. {wrong[0]}: {found.get(wrong[0])} for {expected.get(wrong[0])}; no number")


def memory_of(job: psutil.Process) -> dict[str, float]:
    """MiB of the JVM, and of all Python processes together."""
    mib = {"jvm": 0.0, "python": 0.0}
    for process in [job, *job.children(recursive=True)]:
        try:
            mib["jvm" if process.name() == "java" else "python"] += process.memory_info().rss / 2**20
        except psutil.NoSuchProcess:
            continue
    return mib


def cpu_of(process: psutil.Process | None) -> float:
    """Processor seconds of a process and its ended children."""
    assert process is not None
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def job_cpu(job: psutil.Process) -> dict[str, float]:
    """Processor seconds of the JVM, and of all Python processes together."""
    used = {"jvm": 0.0, "python": 0.0}
    for process in [job, *job.children(recursive=True)]:
        used["jvm" if process.name() == "java" else "python"] += cpu_of(process)
    return used


def show(title: str, runs: Mapping[str, Sequence[Run]]) -> None:
    """The medians of the interleaved runs, lowest and highest beside them."""
    table = Table("contender", "records/s", "lowest to highest", "CPU s a million: jvm, python, cassandra, kafka", "peak MiB", title=title)
    for name, some in runs.items():
        rates = [run.per_second for run in some]
        cpu = ", ".join(f"{median(run.cpu_seconds.get(part, 0.0) for run in some):.0f}" for part in ("jvm", "python", "cassandra", "kafka"))
        peak = ", ".join(f"{part} {max(run.peak_mib.get(part, 0.0) for run in some):.0f}" for part in ("jvm", "python"))
        table.add_row(name, f"{median(rates):,.0f}", f"{min(rates):,.0f} to {max(rates):,.0f}", cpu, peak)
    Console().print(table)


def contenders(against: Sequence[Path]) -> list[Contender]:
    """This checkout's speed layer, the plain loop, and the speed layers of other checkouts."""
    others = [Contender(f"speed layer of {path.name}", "speed_layer.job", path.resolve()) for path in against]
    return [Contender("speed layer", "speed_layer.job"), *others]


def arguments(description: str | None, runs: int) -> argparse.ArgumentParser:
    """What every benchmark takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--runs", type=int, default=runs, help="measured runs of each contender, in turn")
    parser.add_argument("--against", type=Path, action="append", default=[], metavar="CHECKOUT", help="another checkout of Tally, set up")
    return parser


def say(line: str) -> None:
    """A line for whoever waits."""
    print(line, file=sys.stderr, flush=True)
