"""What an append costs as the master grows old, and what maintenance keeps of it.

`python -m bench.master_age` makes the logs of 1, 30 and 60 days by bulk commits: of files that are
named and not there, as many as hourly maintenance leaves, and those that it has removed in the last
two days; and by as many commits as the log retains. Then real appends follow in turn, each with a
Parquet file for each source, as the ingest makes them every 30 s. What Spark does before does not
depend on the table, and is left out.

`--days 5` makes so many whole days of such appends instead, with all maintenance at its hours;
`--unmaintained` without.
"""

import argparse
import logging
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from statistics import fmean, linear_regression, median

import pyarrow as pa
import structlog
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction, RemoveAction
from rich.console import Console
from rich.table import Table

from batch_layer.master.extent import MasterExtent
from batch_layer.master.files import (
    MASTER_COLUMNS,
    PARTITIONED_BY,
    FilePart,
    SourceDay,
    write_file,
)
from batch_layer.master.maintenance import LiveFile, maintain, read_live_files
from batch_layer.master.progress import last_fingerprints
from batch_layer.master.table import MasterTable
from batch_layer.master.verify import verify
from bench.lib.compared import say
from runtime.kafka.offsets import flatten_offsets
from tally.time.instants import to_millis

AGES = (1, 30, 60)
SOURCES = ("sales", "traffic", "wifi", "inventory")
APPENDS_A_DAY, APPENDS_AN_HOUR, HOURS_A_DAY = 2_880, 120, 24
# What maintenance leaves of a day, and for how long removed files stay in the log; its commits.
FILES_OF_A_DAY, RETENTION_DAYS, LOG_COMMITS = 2, 2, 1_440
PARTITIONS, ROWS = 4, 40
MAX_RATIO = 1.2
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
COLUMNS = pa.schema([*MASTER_COLUMNS, ("sha256", pa.string())])


class AgedMaster:
    """A master and its next offset; every append has ROWS records of each source."""

    def __init__(self, path: Path) -> None:
        self.path, self.master = path, MasterTable.open(path)
        ends = flatten_offsets(self.master.extent.until)
        self.next = max(ends.values(), default=0)

    def append(self, now: datetime) -> float:
        """Append what has happened now; return the processor seconds."""
        began = time.process_time()
        self.master.refresh()
        parts = [part for source in SOURCES for part in self._write(source, now)]
        self.next += ROWS
        until = {source: dict.fromkeys(range(PARTITIONS), self.next) for source in SOURCES}
        ids = dict.fromkeys(SOURCES, TOPIC_ID)
        self.master.append(parts, MasterExtent(ids, until, last_fingerprints(parts)))
        return time.process_time() - began

    def _write(self, source: str, now: datetime) -> list[FilePart]:
        records = [
            {
                "store_id": str(number),
                "event_id": f"{source}:{number}:{self.next}",
                "happened_at": now,
                "fingerprint": "f" * 32,
                "partition": number % PARTITIONS,
                "offset": self.next + number,
                "committed_at": now,
                "value": '{"lines": [' + f"{self.next}," * 30 + "0]}",
                "sha256": f"{number:015x}",
            }
            for number in range(ROWS)
        ]
        records.sort(key=lambda record: (record["partition"], record["offset"]))
        rows = pa.RecordBatch.from_pylist(records, schema=COLUMNS)
        return write_file(str(self.path), SourceDay(source, now.date()), [rows])


def grow_old(path: Path, days: int, today: date) -> AgedMaster:
    """A master whose log is as after so many days of appends and maintenance."""
    aged = AgedMaster(path)
    aged.append(datetime.now(UTC))
    table = DeltaTable(str(path))
    merged = [
        f"{source}-{number}"
        for source in SOURCES
        for number in range(min(days, RETENTION_DAYS) * APPENDS_A_DAY)
    ]
    kept = [
        _added(f"kept-{source}-{day}-{number}", source, today - timedelta(days=day))
        for source in SOURCES
        for day in range(days)
        for number in range(FILES_OF_A_DAY)
    ]
    added = [_added(name, name.partition("-")[0], today) for name in merged]
    _commit(table, [*kept, *added])
    now = to_millis(datetime.now(UTC))
    _commit(
        table,
        [
            RemoveAction(file.path, False, now, file.size, dict(file.partition_values))
            for file in added
        ],
    )
    for _ in range(LOG_COMMITS):
        _commit(table, [])
    table.create_checkpoint()
    return AgedMaster(path)


def _added(name: str, source: str, day: date) -> AddAction:
    values = SourceDay(source, day).values
    statistics = '{"numRecords": 40, "minValues": {"offset": 1}, "maxValues": {"offset": 9}}'
    path = f"source={source}/event_date={day}/{name}.parquet"
    return AddAction(path, 10_000, values, to_millis(datetime.now(UTC)), True, statistics)


def _commit(table: DeltaTable, actions: Sequence[AddAction | RemoveAction]) -> None:
    table.create_write_transaction(
        [*actions],
        mode="append",
        schema=table.schema(),
        partition_by=PARTITIONED_BY,
        commit_properties=CommitProperties(),
    )
    table.update_incremental()


def compare_ages(folder: Path, appends: int) -> int:
    """Append to masters of all ages in turn; 1 when the oldest costs more than MAX_RATIO."""
    now = datetime.now(UTC)
    today = now.date()
    masters = {age: grow_old(folder / str(age), age, today) for age in AGES}
    seconds: dict[int, list[float]] = {age: [] for age in AGES}
    for number in range(appends):
        for age, master in masters.items():
            seconds[age].append(master.append(now))
        if (number + 1) % 100 == 0:
            say(f"{number + 1} appends to each")
    table = Table("age in days", "live files", "mean ms an append", "median", "largest")
    for age, taken in seconds.items():
        live = read_live_files(DeltaTable(str(folder / str(age))))
        files = sum(map(len, live.values()))
        shown = (f"{1000 * value:.1f}" for value in (fmean(taken), median(taken), max(taken)))
        table.add_row(str(age), f"{files:,}", *shown)
    Console().print(table)
    ratio = fmean(seconds[AGES[-1]]) / fmean(seconds[AGES[0]])
    print(f"an append at day {AGES[-1]} costs {ratio:.2f} times one at day {AGES[0]}")
    return 1 if ratio > MAX_RATIO else 0


def run_days(folder: Path, days: int, is_maintained: bool) -> int:
    """Append for whole days, which end now; 1 when more than two files a source-day are live.

    Files that maintenance has merged are retained from the instant on that it is then.
    """
    end = datetime.now(UTC)
    master = AgedMaster(folder / "master")
    begin = end - timedelta(days=days)
    step = timedelta(days=1) / APPENDS_A_DAY
    hours = list[float]()
    table = Table("day", "mean ms an append", "live files", "source-days", "log files", "log MB")
    live: dict[SourceDay, list[LiveFile]] = {}
    for day in range(days):
        for hour in range(HOURS_A_DAY):
            taken = []
            for number in range(APPENDS_AN_HOUR):
                now = begin + timedelta(days=day, hours=hour) + number * step
                taken.append(master.append(now))
            hours.append(fmean(taken))
            _date_log_files(master.path, end, now)
            if is_maintained:
                maintain(master.path, now)
        live = read_live_files(DeltaTable(str(master.path)))
        log = [file.stat().st_size for file in (master.path / "_delta_log").iterdir()]
        mean = fmean(hours[-HOURS_A_DAY:])
        row = (f"{1000 * mean:.1f}", f"{sum(map(len, live.values())):,}", str(len(live)))
        table.add_row(str(day + 1), *row, f"{len(log):,}", f"{sum(log) / 1e6:.1f}")
        say(f"day {day + 1}: {row[0]} ms an append")
    Console().print(table)
    slope, start = linear_regression(range(len(hours)), hours)
    print(
        f"an append takes {1000 * start:.1f} ms and {1000 * HOURS_A_DAY * slope:+.2f} ms a day more"
        " (least squares over the hours)"
    )
    found = verify(master.path)
    print(f"{sum(line.rows.number for line in found.lines):,} rows verified, ok: {found.ok}")
    files = sum(map(len, live.values()))
    return 0 if found.ok and (not is_maintained or files <= 2 * len(live)) else 1


def _date_log_files(path: Path, since: datetime, now: datetime) -> None:
    """Give the log's files that were written since the start the instant that it is now.

    Delta deletes entries of the log by the age of their files.
    """
    for file in (path / "_delta_log").iterdir():
        if file.stat().st_mtime >= since.timestamp():
            os.utime(file, (now.timestamp(), now.timestamp()))


def main() -> int:
    """Return 0 when the numbers are within their limits."""
    parser = argparse.ArgumentParser(prog="master_age", description=__doc__)
    parser.add_argument("--appends", type=int, default=500, help="to each age")
    parser.add_argument("--days", type=int, help="make whole days of appends")
    parser.add_argument("--unmaintained", action="store_true", help="with --days: merge nothing")
    given = parser.parse_args()
    # Maintenance says what it merges.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory(prefix="bench-master-") as folder:
        if given.days:
            return run_days(Path(folder), given.days, not given.unmaintained)
        return compare_ages(Path(folder), given.appends)


if __name__ == "__main__":
    sys.exit(main())
