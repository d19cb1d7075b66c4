"""One window that grows: `python -m bench.measurements.window` sends it 200,000 receipts.

They are of one store and quarter hour, 1,000 for each micro-batch. It prints what a micro-batch
took as the window grew; the rows are compared at the end.
"""

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.lib.compared import Sold, SoldKey, read_rows, refuse_wrong_rows
from bench.lib.contenders import Contender, contenders
from bench.lib.harness import Bench, arguments, count_expected, own_stack, publish, running
from ops import provision
from runtime.connect import cassandra_session
from tests.support.sources.canonical import receipt

START, STEP = datetime(2026, 3, 2, 12, tzinfo=UTC), timedelta(milliseconds=4)
AROUND, TIMEOUT_SECONDS = 5, 60
# The micro-batches that are shown, in addition to the last one.
PLACES = (10, 50, 100, 150)


def micro_batches(home: Path) -> list[int]:
    """The milliseconds of each micro-batch that read records."""
    lines = [
        line
        # All progress files are read: a long run fills one and continues in the next.
        for file in (home / "logs").glob("speed-progress-*.jsonl")
        for line in file.read_text("utf-8").splitlines()
    ]
    reports = [json.loads(line) for line in lines]
    reports.sort(key=lambda report: report["batch_id"])
    return [report["duration_ms"]["triggerExecution"] for report in reports if report["input_rows"]]


def median_around(durations: Sequence[int], place: int) -> float:
    """The median of the durations around one micro-batch, in their unit."""
    return median(durations[max(0, place - AROUND) : place + AROUND])


def grow(bench: Bench, contender: Contender, batches: int, events: int) -> list[int]:
    """The milliseconds that each micro-batch took. Raises SystemExit when the rows are wrong."""
    provision.create_tables(bench.settings)
    expected: dict[SoldKey, Sold] = {}
    with (
        tempfile.TemporaryDirectory(prefix="bench-checkpoints-") as folder,
        cassandra_session(bench.settings) as session,
    ):
        variables = {
            "TALLY_CHECKPOINTS": f"{folder}/checkpoints",
            "TALLY_READY_FILE": f"{folder}/ready",
        }
        with running(contender, {**bench.environment, **variables}, Path(folder)):
            for batch in range(batches):
                numbers = range(batch * events, (batch + 1) * events)
                sold = (receipt("1", number, START + number * STEP) for number in numbers)
                publish(bench.settings, count_expected(sold, expected))()
                # One micro-batch per lot: if sent ahead, two lots could fall into one micro-batch.
                wait_for(batch, bench.settings.home)
            refuse_wrong_rows(contender.name, read_rows(session), expected)
    return micro_batches(bench.settings.home)


def wait_for(batch: int, home: Path) -> None:
    """Return when the micro-batch has ended. Raises SystemExit when it does not end in time."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while len(micro_batches(home)) <= batch:
        if time.monotonic() > deadline:
            raise SystemExit(f"micro-batch {batch} did not come")
        time.sleep(0.05)


def main() -> int:
    """Return 0 when the rows are right."""
    parser = arguments(__doc__, runs=1)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--events", type=int, default=1_000, help="in each micro-batch")
    options = parser.parse_args()
    contender = contenders([])[0]
    with own_stack() as bench:
        took = grow(bench, contender, options.batches, options.events)
    columns = ("micro-batch", "events in the window", "ms (median of ten)", "by the tenth")
    table = Table(*columns, title=contender.name)
    last = len(took) - AROUND
    for place in [*(place for place in PLACES if place < last), last]:
        ms = median_around(took, place)
        ratio = ms / median_around(took, PLACES[0])
        table.add_row(f"{place}", f"{place * options.events:,}", f"{ms:.0f}", f"{ratio:.2f}")
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
