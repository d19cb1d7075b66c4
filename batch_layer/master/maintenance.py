"""`python -m batch_layer.master.maintenance`: keeps the master dataset small in files.

It merges the small files of each source and day, removes files that no version needs any more, and
cleans the log up. It runs beside the ingest and beside rebuilds: an append conflicts with neither,
and a version stays readable for as long as its files are retained.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import structlog
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import RemoveAction

from batch_layer.master.files import PARTITIONED_BY, SourceDay, merge_files, to_actions
from runtime.process.job import lower_process_priority, run_job
from tally.config.settings import Settings
from tally.errors import AlreadyRunning, TallyError
from tally.time.instants import to_millis

# A file of this size is not merged again.
FULL_BYTES = 256 << 20
# The largest file of a day is left alone while the others are together so many times smaller:
# otherwise each late record would rewrite its day.
_TIERS = 4
# The name of every merge's commit.
WRITER = "tally-master-maintenance"
log = structlog.get_logger()


class LiveFile(NamedTuple):
    """A file of the table, its size in bytes."""

    size: int
    path: str


class Merge(NamedTuple):
    """Files of a source and UTC day that are to become one."""

    of: SourceDay
    files: Sequence[LiveFile]


@dataclass(frozen=True)
class MaintenanceReport:
    """What one run has done, and how many files and days of a source are live after it."""

    merged_days: int
    merged_files: int
    removed_files: int
    live_files: int
    source_days: int
    version: int


def main(argv: Sequence[str] | None = None) -> int:
    """Maintain the master; return the exit code: 0 done, 1 failed, 78 refused, 2 usage."""
    parser = argparse.ArgumentParser(
        prog="python -m batch_layer.master.maintenance",
        description="Merge small files of the master dataset, and remove those no version needs.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(argv)

    def work() -> None:
        # The ingest and the rebuilds have priority.
        lower_process_priority()
        report = asdict(maintain(Settings.load().master_path, datetime.now(UTC)))
        print(json.dumps(report) if given.json else f"master maintenance: {report}")

    return run_job("master maintenance", work)


def maintain(path: Path, now: datetime) -> MaintenanceReport:
    """Merge, remove and clean up once.

    now: from when on the files that are merged are retained. Raises TallyError when there is no
    table, AlreadyRunning when another maintenance merges.
    """
    if not DeltaTable.is_deltatable(str(path)):
        raise TallyError(f"no master dataset in {path}; start its ingest with `tally up master`")
    table = DeltaTable(str(path))
    merges = [*plan_merges(read_live_files(table))]
    for merge in merges:
        commit_merge(table, path, merge, now)
        source, day = merge.of
        log.info("merged", source=source, day=day, files=len(merge.files))
    # Also the files of appends that were never committed; young ones may be committed yet.
    removed = table.vacuum(dry_run=False, full=True)
    table.create_checkpoint()
    table.cleanup_metadata()
    live = read_live_files(table)
    return MaintenanceReport(
        merged_days=len(merges),
        merged_files=sum(len(merge.files) for merge in merges),
        removed_files=len(removed),
        live_files=sum(map(len, live.values())),
        source_days=len(live),
        version=table.version(),
    )


def read_live_files(table: DeltaTable) -> dict[SourceDay, list[LiveFile]]:
    """The files of each source and day that belong to the table's version."""
    files = table.get_add_actions(flatten=True)
    names = ("partition.source", "partition.event_date", "path", "size_bytes")
    columns = (files[name].to_pylist() for name in names)
    live: dict[SourceDay, list[LiveFile]] = defaultdict(list)
    for source, day, path, size in zip(*columns, strict=True):
        live[SourceDay(source, day)].append(LiveFile(size, path))
    return dict(live)


def plan_merges(
    live: Mapping[SourceDay, Sequence[LiveFile]], full_bytes: int = FULL_BYTES
) -> Iterator[Merge]:
    """Yield what is to be merged of each source and day, in their order."""
    for source_day in sorted(live):
        files = select_small(live[source_day], full_bytes)
        if files:
            yield Merge(source_day, files)


def select_small(files: Sequence[LiveFile], full_bytes: int) -> list[LiveFile]:
    """The files of a day that are to become one; empty if there is nothing to gain.

    The largest is left alone while the others are small beside it.
    """
    small = sorted(file for file in files if file.size < full_bytes)
    if len(small) < 2:
        return []
    *others, largest = small
    if largest.size < _TIERS * sum(file.size for file in others):
        return small
    return others if len(others) > 1 else []


def commit_merge(table: DeltaTable, path: Path, merge: Merge, now: datetime) -> None:
    """Replace the files by one of the same rows.

    Raises AlreadyRunning when another maintenance has merged since the table was read.
    """
    parts = merge_files(str(path), merge.of, (file.path for file in merge.files))
    values, at = merge.of.values, to_millis(now)
    removed = [RemoveAction(name, False, at, size, values) for size, name in merge.files]
    # Every merge has the same name: of two that have seen the same files the second one fails, and
    # would otherwise repeat their rows (delta-rs 1.6.6 does not compare the files removed).
    name = Transaction(WRITER, table.version() + 1)
    try:
        table.create_write_transaction(
            [*to_actions(parts, is_new=False), *removed],
            mode="append",
            schema=table.schema(),
            partition_by=PARTITIONED_BY,
            commit_properties=CommitProperties(app_transactions=[name]),
        )
    except CommitFailedError as error:
        raise AlreadyRunning(
            f"master dataset {path}: another maintenance has merged meanwhile; run it again"
            f" ({error})"
        ) from error
    table.update_incremental()


if __name__ == "__main__":
    sys.exit(main())
