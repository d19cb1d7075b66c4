"""The rebuild of one dirty day as the history grows: `python -m bench.dirty_day`.

It grows a master of 1, 12 and 36 months. At each age some late receipts make one day dirty, and the
job rebuilds it as it does every hour; what Spark's tasks have read is taken from its event log.
Beside it, a rebuild with nothing dirty, and `tally --help`. A generation whose rows are not those
of the receipts has no number.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from cassandra.cluster import Session
from rich.console import Console
from rich.table import Table

from batch_layer.master.maintenance import maintain
from bench.lib.compared import Sold, SoldKey, read_rows, refuse_wrong_rows, say
from bench.lib.harness import Bench, arguments, count_expected, own_stack, publish
from bench.lib.processes import job_cpu
from bench.lib.shown import median_and_range
from bench.rebuild import REBUILD, ingest_all
from ingest.sources.sales.record import CanonicalReceipt
from ops import provision
from runtime.connect import cassandra_session
from tally.time.windows import day_start
from tests.support.sources.canonical import receipt

AGES = (1, 12, 36)
DAYS_A_MONTH, LATE = 30, 10
POLL_SECONDS = 0.05
MAX_RATIO, MAX_SECONDS = 1.2, 1.0
FILES_READ = "number of files read"
CommandLine = Sequence[str]


@dataclass(frozen=True)
class Cost:
    """A run: seconds, processor seconds of all its processes, the Java processes among them; what
    its tasks have read, and the rows that it has written."""

    seconds: float
    cpu: float
    javas: int
    read_bytes: int = 0
    files: int = 0
    rows: int = 0


def make_days(stores: int, receipts: int, days: Sequence[date]) -> Iterator[CanonicalReceipt]:
    """So many receipts of each store on each day, from 9 o'clock on."""
    step = timedelta(hours=10) / receipts
    for day in days:
        for store in range(stores):
            for number in range(receipts):
                name = day.toordinal() * receipts + number
                at = day_start(day) + timedelta(hours=9) + number * step
                yield receipt(f"store-{store}", name, at, 100 + number)


def make_late(run: int, day: date) -> Iterator[CanonicalReceipt]:
    """Receipts of the day that no other run has sent."""
    at = day_start(day) + timedelta(hours=20)
    for store in range(LATE):
        yield receipt(f"store-{store}", run, at, 500)


def run_command(command: CommandLine, variables: Mapping[str, str]) -> tuple[Cost, str]:
    """Run a command; return what it cost and its output. Raises SystemExit when it fails."""
    cpu, javas = 0.0, set[int]()
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        with subprocess.Popen(command, env={**variables}, stdout=output) as job:
            process = psutil.Process(job.pid)
            while job.poll() is None:
                # A JVM outlives its Python process and is nobody's child then: the highest sum is
                # that of its last moment.
                with suppress(psutil.NoSuchProcess):
                    children = process.children(recursive=True)
                    javas |= {child.pid for child in children if child.name() == "java"}
                    cpu = max(cpu, sum(job_cpu(process).values()))
                time.sleep(POLL_SECONDS)
        output.seek(0)
        text = output.read()
    if job.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {job.returncode}")
    return Cost(time.monotonic() - began, cpu, len(javas)), text


def rebuild_dirty(bench: Bench) -> tuple[Cost, dict[str, Any]]:
    """Run the job for what is dirty, as Airflow does; return what it cost, and its report."""
    command = [sys.executable, "-m", REBUILD, "--dirty", "--json"]
    with tempfile.TemporaryDirectory(prefix="bench-events-") as folder:
        events, defaults = Path(folder, "events"), Path(folder, "spark-defaults.conf")
        events.mkdir()
        options = {"enabled": "true", "compress": "false", "dir": f"file://{events}"}
        lines = [f"spark.eventLog.{name} {value}" for name, value in options.items()]
        defaults.write_text("\n".join(lines))
        cost, text = run_command(command, {**bench.environment, "SPARK_CONF_DIR": folder})
        report = json.loads(text.splitlines()[-1])
        # The JVM outlives its Python process by a second.
        while [*events.rglob("*.inprogress")]:
            time.sleep(POLL_SECONDS)
        read_bytes, files = read_event_log(events)
    cost = replace(cost, read_bytes=read_bytes, files=files, rows=report["rows"])
    return cost, report


def read_event_log(folder: Path) -> tuple[int, int]:
    """Bytes that the tasks of a Spark application have read, and files that its scans have."""
    read_bytes, counters = 0, set[int]()
    counted: dict[int, int] = {}
    for file in filter(Path.is_file, folder.rglob("*")):
        if file.suffix == ".crc":
            continue
        for line in file.read_text().splitlines():
            event = json.loads(line)
            metrics = event.get("Task Metrics") or {}
            read_bytes += metrics.get("Input Metrics", {}).get("Bytes Read", 0)
            counters |= {*find_counters(event.get("sparkPlanInfo", {}))}
            counted |= dict(event.get("accumUpdates", ()))
    return read_bytes, sum(counted.get(number, 0) for number in counters)


def find_counters(plan: Mapping[str, Any]) -> Iterator[int]:
    """The numbers of the counters of files read, of a plan and all below it."""
    for metric in plan.get("metrics", ()):
        if metric["name"] == FILES_READ:
            yield metric["accumulatorId"]
    for child in plan.get("children", ()):
        yield from find_counters(child)


class GrowingHistory:
    """A master that is filled backwards from its dirty day, and the rows expected of that day."""

    def __init__(self, bench: Bench, session: Session, stores: int, receipts: int) -> None:
        self._bench, self._session = bench, session
        self._stores, self._receipts = stores, receipts
        self._months, self._runs = 0, 0
        self.day = datetime.now(UTC).date() - timedelta(days=10)
        self._expected: dict[SoldKey, Sold] = {}

    def grow(self, months: int) -> None:
        """Add earlier months, so many in all, and rebuild everything."""
        days = [
            self.day - timedelta(days=number)
            for number in range(self._months * DAYS_A_MONTH, months * DAYS_A_MONTH)
        ]
        self._send(make_days(self._stores, self._receipts, days))
        self._months = months
        command = [sys.executable, "-m", REBUILD, "--full", "--family", "sales", "--json"]
        run_command(command, self._bench.environment)

    def rebuild_late(self) -> Cost:
        """Make the day dirty by late receipts, and rebuild. Raises SystemExit at a wrong row."""
        self._runs += 1
        self._send(make_late(self._runs, self.day))
        cost, report = rebuild_dirty(self._bench)
        rows = f"batch_sales_15min WHERE generation = {report['generation']} ALLOW FILTERING"
        begin = day_start(self.day).timestamp() * 1000
        expected = self._expected
        wanted = {key: expected[key] for key in expected if key[1] >= begin}
        refuse_wrong_rows("rebuild", read_rows(self._session, rows), wanted)
        return cost

    def _send(self, receipts: Iterator[CanonicalReceipt]) -> None:
        publish(self._bench.settings, count_expected(receipts, self._expected))()
        ingest_all(self._bench, self._session)
        # As every hour: otherwise the day would have a file more at each run.
        maintain(self._bench.settings.master_path, datetime.now(UTC))


def show(costs: Mapping[int, Sequence[Cost]]) -> None:
    """Print the medians of each age."""
    table = Table("months", "processor s (range)", "MB read", "files read", "rows", "seconds")
    for months, runs in costs.items():
        cpu, spread = median_and_range([run.cpu for run in runs], 1)
        counts = [median(getattr(run, name) for run in runs) for name in ("files", "rows")]
        table.add_row(
            str(months),
            f"{cpu} ({spread})",
            f"{median(run.read_bytes for run in runs) / 1e6:.2f}",
            *(f"{count:,.0f}" for count in counts),
            f"{median(run.seconds for run in runs):.1f}",
        )
    Console().print(table)


def is_flat(costs: Mapping[int, Sequence[Cost]]) -> bool:
    """Whether the greatest age costs at most MAX_RATIO of the least one, in every measure."""
    flat = True
    for name in ("cpu", "read_bytes", "files", "rows"):
        medians = [median(getattr(run, name) for run in costs[months]) for months in AGES]
        ratio = medians[-1] / medians[0]
        print(f"{name}: {ratio:.2f} times as much at {AGES[-1]} months as at {AGES[0]}")
        flat &= ratio <= MAX_RATIO
    return flat


def compare_idle(bench: Bench, runs: int) -> bool:
    """Whether a rebuild with nothing dirty takes at most MAX_SECONDS more than `tally --help`.

    Raises SystemExit when something was dirty.
    """
    help_command = [sys.executable, "-m", "ops.cli", "--help"]
    idle, helped = list[Cost](), list[Cost]()
    for _ in range(runs):
        helped.append(run_command(help_command, bench.environment)[0])
        cost, report = rebuild_dirty(bench)
        if report["rows"]:
            raise SystemExit(f"something was dirty: {report}")
        idle.append(cost)
    seconds = [median(run.seconds for run in runs) for runs in (idle, helped)]
    more = seconds[0] - seconds[1]
    javas = sum(run.javas for run in idle)
    print(f"nothing dirty: {more:+.2f} s against `tally --help`; {javas} Java processes")
    return more <= MAX_SECONDS and not javas


def main() -> int:
    """Return 0 when the greatest age costs no more than the least, and nothing dirty no JVM."""
    parser = arguments(__doc__, runs=3)
    parser.add_argument("--stores", type=int, default=20)
    parser.add_argument("--receipts", type=int, default=20, help="a day and store")
    options = parser.parse_args()
    costs: dict[int, list[Cost]] = {}
    with own_stack() as bench, cassandra_session(bench.settings) as session:
        provision.create_tables(bench.settings)
        history = GrowingHistory(bench, session, options.stores, options.receipts)
        for months in AGES:
            history.grow(months)
            say(f"{months} months are rebuilt")
            costs[months] = [history.rebuild_late() for _ in range(options.runs)]
        show(costs)
        return 0 if is_flat(costs) & compare_idle(bench, options.runs) else 1


if __name__ == "__main__":
    sys.exit(main())
