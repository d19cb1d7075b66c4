"""One window that grows: `python -m bench.window` sends 200,000 receipts of one store and quarter hour, 1,000 for each micro-batch.

It prints what a micro-batch took as the window grew; the rows are compared at the end.
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

from bench.harness import Key, Sold, arguments, contenders, counted, own_stack, publish, refuse_wrong_rows, rows_of, running
from ops.stack import provision
from tally.connect import cassandra_session
from tests.canonical import receipt

START, STEP = datetime(2026, 3, 2, 12, tzinfo=UTC), timedelta(milliseconds=4)
AROUND, TIMEOUT_SECONDS = 5, 60
# The micro-batches that are shown, beside the last.
PLACES = (10, 50, 100, 150)


def micro_batches(home: Path) -> list[int]:
    """Milliseconds of each micro-batch that read something."""
    lines = [line for file in (home / "logs").glob("speed-progress-*.jsonl") for line in file.read_text("utf-8").splitlines()]
    reports = sorted((json.loads(line) for line in lines), key=lambda report: report["batch_id"])
    return [report["duration_ms"]["triggerExecution"] for report in reports if report["input_rows"]]


def grown(of: Sequence[int], place: int) -> float:
    """The median around one micro-batch."""
    return median(of[max(0, place - AROUND) : place + AROUND])


def main() -> int:
    """Exit code 0 when the rows are right."""
    parser = arguments(__doc__, runs=1)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--events", type=int, default=1_000, help="in each micro-batch")
    options = parser.parse_args()
    for contender in contenders([])[:1]:
        with own_stack() as bench, tempfile.TemporaryDirectory(prefix="bench-checkpoints-") as folder:
            provision.create_tables(bench.settings)
            variables = {"TALLY_CHECKPOINTS": f"{folder}/checkpoints", "TALLY_READY_FILE": f"{folder}/ready"}
            expected: dict[Key, Sold] = {}
            with running(contender, {**bench.environment, **variables}, Path(folder)), cassandra_session(bench.settings) as session:
                for batch in range(options.batches):
                    numbers = range(batch * options.events, (batch + 1) * options.events)
                    publish(bench.settings, counted((receipt("1", number, START + number * STEP) for number in numbers), expected))()
                    deadline = time.monotonic() + TIMEOUT_SECONDS
                    while len(micro_batches(bench.settings.home)) <= batch:
                        if time.monotonic() > deadline:
                            raise SystemExit(f"micro-batch {batch} did not come")
                        time.sleep(0.05)
                refuse_wrong_rows(contender.name, rows_of(session), expected)
            took = micro_batches(bench.settings.home)
            table = Table("micro-batch", "events in the window", "ms (median of ten)", "by the tenth", title=contender.name)
            for place in [place for place in PLACES if place < len(took) - AROUND] + [len(took) - AROUND]:
                ratio = grown(took, place) / grown(took, 10)
                table.add_row(str(place), f"{place * options.events:,}", f"{grown(took, place):.0f}", f"{ratio:.2f}")
            Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
