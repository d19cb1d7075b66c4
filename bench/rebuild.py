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

from bench.compared import SoldTotals, refuse_wrong_rows, rows_of, say
from bench.contenders import Contender
from bench.harness import (
    Bench,
    arguments,
    counted,
    own_stack,
    peaks_until,
    publish,
    running,
)
from bench.shown import interval
from bench.throughput import SHAPES
from ops import provision
from runtime.connect import cassandra_session
from runtime.sources import SALES
from speed_layer.source import retained

REBUILD = "batch_layer.views.rebuild"
MASTER = Contender("master ingest", "batch_layer.master.ingest")
# What a rebuild says when a part of it has ended, and the name of that part.
PARTS = {
    "days to rebuild": "start, pin, fates",
    "rows written": "compute and write",
    "windows read back": "check",
    "published": "flip and tell",
}
PartSeconds = dict[str, float]


def fill(bench: Bench, session: Session, shape: str, share: float) -> SoldTotals:
    """The shape's receipts in the master dataset; what the rows of a generation have to be.

    That is receipts and cents by store and window.
    """
    expected: dict[tuple[str, int], tuple[int, int]] = {}
    make, count = SHAPES[shape]
    sent = publish(bench.settings, counted(make(int(count * share)), expected))()
    say(f"{sent:,} receipts are sent")
    end = dict(retained(bench.settings, SALES.topic).end)
    with tempfile.TemporaryDirectory(prefix="bench-master-") as folder:
        # Nothing is measured until the master is filled: it need not wait for its usual trigger.
        variables = {"TALLY_READY_FILE": f"{folder}/ready", "TALLY_INGEST_TRIGGER_SECONDS": "2"}
        with running(MASTER, {**bench.environment, **variables}, Path(folder)) as job:
            peaks_until(lambda: _held(session) == end, job)
    return expected


def _held(session: Session) -> dict[int, int]:
    rows = session.execute("SELECT partition, until FROM master_position WHERE family = 'sales'")
    return {row.partition: row.until for row in rows}


def rebuilt(contender: Contender, environment: Mapping[str, str]) -> tuple[int, PartSeconds]:
    """The generation, and seconds by part, of a process from its start to its end.

    Raises SystemExit when it fails.
    """
    command = [*contender.command, "--full", "--family", "sales", "--json"]
    # From the start of the process: a rebuild of a dirty day is mostly a session that begins.
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
    """Medians by part, lowest and highest of the whole beside them."""
    names = [*PARTS.values(), "end", "all"]
    table = Table("contender", *names, "lowest to highest", title=title)
    for name, some in runs.items():
        medians = (f"{median(one.get(part, 0.0) for one in some):.1f}" for part in names)
        table.add_row(
            name,
            *medians,
            interval([one["all"] for one in some], 1)[1],
        )
    Console().print(table)


def main() -> int:
    """Exit code 0 when every generation has the right rows."""
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
                generation, parts = rebuilt(contender, bench.environment)
                # A scan: the rows lie beside those of every generation before.
                rows = rows_of(
                    session, f"batch_sales_15min WHERE generation = {generation} ALLOW FILTERING"
                )
                refuse_wrong_rows(contender.name, rows, expected)
                runs.setdefault(contender.name, []).append(parts)
                say(f"{contender.name}: {parts['all']:.1f} s")
        show(runs, f"seconds by part, {len(expected):,} windows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
