"""`python -m batch_layer.views.rebuild`: views computed anew from the master dataset and published by one flip.

Token first, then the pin, then compute, write, check, flip: readers never see half a rebuild, and a late run cannot go back.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from uuid import uuid4

from cassandra.cluster import Session
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_layer.session import build_session
from batch_layer.views.fates import CONFLICT, counted_totals, ledger, record_fates, window_members
from batch_layer.views.notices import Notices, note_activity, note_ledger
from batch_layer.views.pin import pin_master
from batch_layer.views.pointer import Generation, PointerTable
from batch_layer.views.rows import Written, write_generation
from batch_layer.views.scope import Wanted, days_between, dirty_days, parse_days
from tally.connect import cassandra_session, kafka_producer
from tally.errors import TallyError
from tally.families import FAMILIES, Family
from tally.frames import window_rows
from tally.settings import Settings


@dataclass(frozen=True)
class Report:
    """What one run did: days and rows published, windows changed against the generation before, the generation's number."""

    run: str
    days: int
    rows: int
    changed_windows: int
    seconds: float
    generation: int


@dataclass(frozen=True)
class Job:
    """What a rebuild works with."""

    spark: SparkSession
    session: Session
    settings: Settings
    wanted: Wanted
    dry_run: bool


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 published (or nothing to do), 1 failed, 2 wrong use. With --json one object on standard output."""
    parser = argparse.ArgumentParser(prog="python -m batch_layer.views.rebuild", description="Rebuild views from the master dataset.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--full", action="store_true", help="every day of the master dataset")
    what.add_argument("--days", metavar="A..B", help="UTC days, both inclusive")
    what.add_argument("--dirty", action="store_true", help="days that have records beyond their generation (default)")
    parser.add_argument("--dry-run", action="store_true", help="say what would be rebuilt")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given, settings = parser.parse_args(argv), Settings.load()
    try:
        wanted = parse_days(given.days) if given.days else Wanted("full" if given.full else "dirty")
        with cassandra_session(settings) as session:
            report = rebuild(Job(build_session(settings, "tally-rebuild"), session, settings, wanted, given.dry_run))
    except TallyError as error:
        print(f"rebuild: {error}", file=sys.stderr)
        return 1
    print(json.dumps(asdict(report)) if given.json else f"rebuild {report.run}: {asdict(report)}")
    return 0


def rebuild(job: Job) -> Report:
    """Every family rebuilt. Raises TallyError when a check fails or the flip is refused; nothing is published then."""
    started, run = time.monotonic(), uuid4().hex[:12]
    reports = [_rebuild_family(job, family, run) for family in FAMILIES.values()]
    return Report(
        run=run,
        days=max(report.days for report in reports),
        rows=sum(report.rows for report in reports),
        changed_windows=sum(report.changed_windows for report in reports),
        seconds=round(time.monotonic() - started, 1),
        generation=max(report.generation for report in reports),
    )


def _rebuild_family(job: Job, family: Family, run: str) -> Report:
    table = PointerTable(job.session, family.name)
    table.record_history()
    token = 0 if job.dry_run else table.take_token()
    pin, master = pin_master(job.spark, job.settings, family, datetime.now(UTC))
    fates = record_fates(master).persist()
    try:
        days = _days(job, family, master, fates)
        if not days or job.dry_run:
            _say(f"{family.name}: {len(days)} days to rebuild")
            return Report(run, len(days), 0, 0, 0.0, token)
        earlier = {day: pointer.generation for day, pointer in table.current().items() if day in set(days)}
        chosen = master.where(F.col("event_date").between(days[0], days[-1]) & F.col("event_date").isin(days))
        written = _write_and_check(job, family, (chosen, fates), token, earlier)
        _tell_conflicts(job, family, master, fates)
        note_ledger(job.session, family, token, [row.asDict() for row in ledger(fates).collect()])
        table.flip(days, Generation(family.name, token, family.epoch, pin.version, pin.until, pin.through, pin.covered_until))
        return Report(
            run,
            len(days),
            sum(task.rows for task in written),
            _after_flip(job, family, master, written, (earlier, token)),
            0.0,
            token,
        )
    finally:
        fates.unpersist()


def _days(job: Job, family: Family, master: DataFrame, fates: DataFrame) -> list[date]:
    """The days to rebuild, ascending."""
    wanted = job.wanted
    if wanted.mode == "days" and wanted.first and wanted.last:
        return days_between(wanted.first, wanted.last)
    if wanted.mode == "full":
        first, last = master.agg(F.min("event_date"), F.max("event_date")).collect()[0]
        return days_between(first, last) if first else []
    reached: dict[date, dict[int, int]] = {}
    for row in fates.groupBy("event_date", "partition").agg((F.max("offset") + 1).alias("until")).collect():
        reached.setdefault(row["event_date"], {})[row["partition"]] = row["until"]
    pinned = {day: pointer.pinned for day, pointer in PointerTable(job.session, family.name).current().items()}
    conflicts = [(row[0], row[1]) for row in fates.where("elsewhere").select("event_date", "first_date").distinct().collect()]
    return sorted(dirty_days(reached, pinned, conflicts))


def _write_and_check(
    job: Job, family: Family, records: tuple[DataFrame, DataFrame], token: int, earlier: Mapping[date, int]
) -> list[Written]:
    """The rows written, and their sums equal to the sum over counted records, computed without windows."""
    chosen, fates = records
    rows = window_rows(window_members(chosen, fates, family), family)
    written = write_generation(rows, job.settings, family, token, earlier)
    acked = {part: sum(task.sums[i] for task in written) for i, part in enumerate(family.parts)}
    counted = counted_totals(chosen, fates, family).collect()[0].asDict()
    _say(f"{family.name}: {sum(task.rows for task in written):,} rows written under generation {token}, {acked}")
    if acked != counted:
        raise TallyError(f"rebuild {token} of {family.name}: rows sum to {acked}, counted records to {counted}; nothing was published")
    return written


def _tell_conflicts(job: Job, family: Family, master: DataFrame, fates: DataFrame) -> None:
    conflicts = fates.where(F.col("fate") == CONFLICT).select("partition", "offset")
    found = master.join(F.broadcast(conflicts), on=["partition", "offset"], how="left_semi").collect()
    sent = _notices(job).conflicts(family, [row.asDict() for row in found])
    _say(f"{family.name}: {sent} conflicts in dead-letters")


def _after_flip(
    job: Job, family: Family, master: DataFrame, written: Sequence[Written], generations: tuple[Mapping[date, int], int]
) -> int:
    """Restatements and the stores' days; how many windows changed."""
    changed = [window for task in written for window in task.changed]
    _notices(job).restate(family, changed, *generations)
    note_activity(job.session, family, master)
    return len(changed)


def _notices(job: Job) -> Notices:
    return Notices(kafka_producer(job.settings), job.settings.partitions)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
