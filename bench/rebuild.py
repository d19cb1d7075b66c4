"""The rebuild of a year: `python -m bench.rebuild` times rebuilds of the real receipts.

It brings them into a master dataset, then rebuilds all of it in turn, and prints what each part of
a rebuild took; a generation whose rows are not those of the receipts has no number.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from cassandra.cluster import Session
from rich.console import Console
from rich.table import Table

from bench.lib.compared import SoldTotals, read_rows, refuse_wrong_rows, say
from bench.lib.contenders import Contender
from bench.lib.harness import (
    Bench,
    arguments,
    count_expected,
    own_stack,
    peaks_until,
    publish,
    running,
)
from bench.lib.shown import median_and_range
from bench.throughput import SHAPES
from ops import provision
from runtime.connect import cassandra_session
from runtime.registry.sources import SALES
from speed_layer.session import read_retained_offsets

REBUILD = "batch_layer.views.rebuild"
MASTER = Contender("master ingest", "batch_layer.master.ingest")
# A rebuild's output line at the end of each part, and the name of that part.
PARTS = {
    "days to rebuild": "start, pin, fates",
    "rows written": "compute and write",
    "windows read back": "check",
    "published": "flip and tell",
}
PartSeconds = dict[str, float]


def fill(bench: Bench, session: Session, shape: str, share: float) -> SoldTotals:
    """Load the shape's receipts into the master dataset; returns the expected rows.

    The rows are receipts and cents by store and window.
    """
    expected: dict[tuple[str, int], tuple[int, int]] = {}
    make, count = SHAPES[shape]
    sent = publish(bench.settings, count_expected(make(int(count * share)), expected))()
    say(f"{sent:,} receipts are sent")
    ingest_all(bench, session)
    return expected


def ingest_all(bench: Bench, session: Session) -> None:
    """Run the master's ingest until it has all receipts of the topic."""
    end = dict(read_retained_offsets(bench.settings, SALES.topic).end)
    with tempfile.TemporaryDirectory(prefix="bench-master-") as folder:
        # Filling the master is not measured, so the ingest uses a shorter trigger than usual.
        variables = {"TALLY_READY_FILE": f"{folder}/ready", "TALLY_INGEST_TRIGGER_SECONDS": "2"}
        with running(MASTER, {**bench.environment, **variables}, Path(folder)) as job:
            peaks_until(lambda: _master_positions(session) == end, job)


def _master_positions(session: Session) -> dict[int, int]:
    rows = session.execute("SELECT partition, until FROM master_position WHERE family = 'sales'")
    return {row.partition: row.until for row in rows}


def run_rebuild(contender: Contender, environment: Mapping[str, str]) -> tuple[int, PartSeconds]:
    """Run a rebuild process; returns its generation, and the seconds of each part.

    Raises SystemExit when it fails.
    """
    command = [*contender.command, "--full", "--family", "sales", "--json"]
    # From the start of the process: a rebuild of a dirty day is mostly the start of a session.
    since = began = time.monotonic()
    parts, lines = PartSeconds(), list[str]()
    with subprocess.Popen(
        command,
        env={**environment},
        cwd=contender.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as job:
        assert job.stdout is not None
        for line in job.stdout:
            lines.append(line)
            for words, name in PARTS.items():
                if line.startswith("sales:") and words in line:
                    parts[name], since = time.monotonic() - since, time.monotonic()
    if job.returncode:
        raise SystemExit(f"{contender.name}: {''.join(lines)[-2000:]}")
    ended = time.monotonic()
    return int(json.loads(lines[-1])["generation"]), {
        **parts,
        "end": ended - since,
        "all": ended - began,
    }


def show(runs: Mapping[str, list[PartSeconds]], title: str) -> None:
    """Print the medians by part, and the lowest and highest total."""
    names = [*PARTS.values(), "end", "all"]
    table = Table("contender", *names, "lowest to highest", title=title)
    for name, measured in runs.items():
        medians = (f"{median(run.get(part, 0.0) for run in measured):.1f}" for part in names)
        table.add_row(
            name,
            *medians,
            median_and_range([run["all"] for run in measured], 1)[1],
        )
    Console().print(table)


def main() -> int:
    """Return 0 when every generation has the right rows."""
    parser = arguments(__doc__, runs=3)
    parser.add_argument("--share", type=float, default=1.0, help="of the year")
    options = parser.parse_args()
    others = [
        Contender(f"rebuild of {path.name}", REBUILD, path.resolve()) for path in options.against
    ]
    runs: dict[str, list[PartSeconds]] = {}
    with own_stack() as bench, cassandra_session(bench.settings) as session:
        provision.create_tables(bench.settings)
        for other in others:
            other.make_tables(bench.environment)
        expected = fill(bench, session, "sparse", options.share)
        for _ in range(options.runs):
            for contender in [Contender("rebuild", REBUILD), *others]:
                generation, parts = run_rebuild(contender, bench.environment)
                # A scan, because the rows are stored beside those of all earlier generations.
                rows = read_rows(
                    session, f"batch_sales_15min WHERE generation = {generation} ALLOW FILTERING"
                )
                refuse_wrong_rows(contender.name, rows, expected)
                runs.setdefault(contender.name, []).append(parts)
                say(f"{contender.name}: {parts['all']:.1f} s")
        show(runs, f"seconds by part, {len(expected):,} windows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
