"""Catching up: `python -m bench.measurements.backlog` times a speed layer that five million
receipts wait for.

They are dense; it starts with a heap of 1 GB once they wait, and is killed thrice.

It prints how long it took, the peak of its memory, and how many receipts were left out as late; a
wrong row and there is no number.
"""

import sys
import tempfile
import time
from functools import partial
from itertools import islice
from pathlib import Path

from cassandra.cluster import Session

from bench.lib.compared import Sold, SoldKey, read_rows, refuse_wrong_rows, say
from bench.lib.contenders import Contender, contenders
from bench.lib.harness import (
    Bench,
    arguments,
    count_expected,
    own_stack,
    peaks_until,
    publish,
    read_progress,
    running,
)
from bench.throughput import dense
from ops import provision
from runtime.connect import cassandra_session
from runtime.registry.sources import SALES
from speed_layer.session import read_retained_offsets

AT_ONCE = 250_000
KILL_SHARES = (0.2, 0.5, 0.8)
HEAP = "1g"


def fill(bench: Bench, count: int) -> dict[SoldKey, Sold]:
    """Send the receipts; returns the expected rows by store and window, money in cents."""
    expected: dict[SoldKey, Sold] = {}
    records, sent = count_expected(dense(count), expected), 0
    while count_sent := publish(bench.settings, islice(records, AT_ONCE))():
        sent += count_sent
        say(f"{sent:,} receipts wait")
    return expected


def measure_catch_up(bench: Bench, contender: Contender, session: Session, folder: Path) -> None:
    """Start the contender, kill it three times, wait until all is read, and print the results."""
    end = dict(read_retained_offsets(bench.settings, SALES.topic).end)
    variables = {
        "TALLY_CHECKPOINTS": f"{folder}/checkpoints",
        "TALLY_READY_FILE": f"{folder}/ready",
        "TALLY_SPARK_MEMORY": HEAP,
    }
    began, peaks = time.monotonic(), {"jvm": 0.0, "python": 0.0}
    for share in (*KILL_SHARES, 1.0):
        # Removes the ready file of the killed process: the next one has to touch it again.
        Path(variables["TALLY_READY_FILE"]).unlink(missing_ok=True)
        with running(contender, {**bench.environment, **variables}, folder) as job:
            here = peaks_until(partial(has_read, session, end, share), job)
            # The peak of all starts: after a kill a micro-batch is read again.
            peaks = {name: max(peaks[name], mib) for name, mib in here.items()}
        say(
            f"{contender.name}: {share:.0%} read after {time.monotonic() - began:.0f} s"
            + (", killed" if share < 1 else "")
        )
    late = sum(row.dropped for row in session.execute("SELECT dropped FROM speed_late"))
    print(
        f"{contender.name}: {sum(end.values()):,} offsets in {time.monotonic() - began:.0f} s with"
        f" {len(KILL_SHARES)} kills; late {late:,}; peak MiB: jvm {peaks['jvm']:.0f}, python"
        f" {peaks['python']:.0f}"
    )


def has_read(session: Session, end: dict[int, int], share: float) -> bool:
    """Whether the views hold this share of the records of all partitions."""
    now = read_progress(session)
    # The end is compared by partition: a sum can be reached while one partition is behind.
    if share == 1:
        return now == end
    return sum(now.values()) >= share * sum(end.values())


def main() -> int:
    """Return 0 when every row is right."""
    parser = arguments(__doc__, runs=1)
    parser.add_argument("--receipts", type=int, default=5_000_000)
    options = parser.parse_args()
    for contender in contenders(options.against):
        with (
            own_stack() as bench,
            tempfile.TemporaryDirectory(prefix="bench-checkpoints-") as folder,
        ):
            provision.create_tables(bench.settings)
            expected = fill(bench, options.receipts)
            with cassandra_session(bench.settings) as session:
                measure_catch_up(bench, contender, session, Path(folder))
                refuse_wrong_rows(contender.name, read_rows(session), expected)
    return 0


if __name__ == "__main__":
    sys.exit(main())
