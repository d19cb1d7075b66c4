"""One family rebuilt and published: token, pin, compute, write, check, flip, tell."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from cassandra.cluster import Session
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_layer.views.fates import CONFLICT, considered_events, counted_totals, ledger, record_fates, touched_days, window_members
from batch_layer.views.notices import Notices, note_activity, note_ledger
from batch_layer.views.pin import Pin, pin_master
from batch_layer.views.pointer import Generation, Pointer, PointerTable
from batch_layer.views.rows import Written, write_generation
from batch_layer.views.scope import Reach, Wanted, days_between, dirty_days, with_gaps
from tally.connect import kafka_producer
from tally.errors import TallyError
from tally.families import FAMILIES, Family
from tally.frames import window_rows
from tally.instants import instant_text
from tally.settings import Settings


@dataclass(frozen=True)
class Job:
    """What a rebuild works with."""

    spark: SparkSession
    session: Session
    settings: Settings
    wanted: Wanted
    dry_run: bool = False
    families: Sequence[Family] = tuple(FAMILIES.values())


@dataclass(frozen=True)
class Published:
    """What was published of one family."""

    days: int
    rows: int
    changed_windows: int
    generation: int


@dataclass(frozen=True)
class _Pinned:
    """The family's records of one pinned version, what became of each, and the generations that serve now."""

    pin: Pin
    master: DataFrame
    fates: DataFrame
    current: Mapping[date, Pointer]


def publish(job: Job, family: Family) -> Published:
    """The family's wanted days rebuilt under a new generation and published by one flip of the pointer.

    Raises TallyError when a check fails, FlipRefused when a later run was faster; readers then stay where they were.
    """
    table = PointerTable(job.session, family.name)
    # Makes good what a crash between a flip and its history left out.
    table.record_history()
    token = 0 if job.dry_run else table.take_token()
    pin, master = pin_master(job.spark, job.settings, family, datetime.now(UTC))
    current = table.current()
    pinned = _Pinned(pin.with_earlier(current.values()), master, record_fates(master).persist(), current)
    try:
        days = _days(job.wanted, family, pinned)
        reach = f"version {pin.version} of the master dataset, with all that had arrived by {instant_text(min(pin.through.values()))}"
        _say(f"{family.name}: {len(days)} days to rebuild from {reach}")
        if not days or job.dry_run:
            return Published(len(days), 0, 0, 0)
        written = _write(job, family, pinned, days, token)
        pin = pinned.pin
        table.flip(days, Generation(family.name, token, family.epoch, pin.version, pin.until, pin.through, pin.covered_until))
        _notices(job).restate(family, written.changed, {day: pointer.generation for day, pointer in current.items()}, token)
        note_activity(job.session, family, master)
        _say(f"{family.name}: generation {token} published, {len(written.changed):,} windows changed")
        return Published(len(days), written.rows, len(written.changed), token)
    finally:
        pinned.fates.unpersist()


def _days(wanted: Wanted, family: Family, pinned: _Pinned) -> list[date]:
    """The days to rebuild, ascending."""
    if wanted.mode == "days" and wanted.first and wanted.last:
        return days_between(wanted.first, wanted.last)
    fates = pinned.fates
    until: dict[date, dict[int, int]] = {}
    for row in fates.groupBy("event_date", "partition").agg((F.max("offset") + 1).alias("until")).collect():
        until.setdefault(row["event_date"], {})[row["partition"]] = row["until"]
    if wanted.mode == "full":
        return sorted(with_gaps(until))
    conflicts = [(row[0], row[1]) for row in fates.where("elsewhere").select("event_date", "first_date").distinct().collect()]
    return sorted(dirty_days(Reach(family.epoch, pinned.pin.covered_until, until), pinned.current, conflicts))


def _write(job: Job, family: Family, pinned: _Pinned, days: list[date], token: int) -> Written:
    """Rows of the days written under the token and checked, conflicts told, the ledger noted; nothing is served from it yet."""
    chosen, fates = (_of_days(records, days) for records in (pinned.master, pinned.fates))
    rows = _with_touched(job, family, window_rows(window_members(chosen, fates, family), family), pinned)
    earlier = {day: pointer.generation for day, pointer in pinned.current.items()}
    written = write_generation(rows, job.settings, family, token, earlier)
    _say(f"{family.name}: {written.rows:,} rows written under generation {token}")
    _check(family, token, written, (chosen, fates))
    _tell_conflicts(job, family, chosen, fates)
    note_ledger(job.session, family, token, [row.asDict() for row in ledger(pinned.fates).collect()])
    return written


def _of_days(records: DataFrame, days: list[date]) -> DataFrame:
    # As text: the bridge to the JVM takes no date before the year 1000.
    wanted = [f"DATE'{day.isoformat()}'" for day in days]
    return records.where(f"event_date BETWEEN {wanted[0]} AND {wanted[-1]} AND event_date IN ({', '.join(wanted)})")


def _with_touched(job: Job, family: Family, rows: DataFrame, pinned: _Pinned) -> DataFrame:
    """The rows with a boolean column `touched`: they may differ from those that are served now."""
    reached = [
        # Another definition makes every row another one.
        (day, number, pointer.pinned.get(number, 0) if pointer.epoch == family.epoch else 0)
        for day, pointer in pinned.current.items()
        for number in pinned.pin.until
    ]
    if not reached:
        return rows.withColumn("touched", F.lit(False))
    touched = touched_days(pinned.fates, job.spark.createDataFrame(reached, "event_date date, partition int, pinned bigint"))
    return rows.join(touched.withColumn("touched", F.lit(True)), on=["store_id", "day"], how="left").fillna(False, subset=["touched"])


def _check(family: Family, token: int, written: Written, records: tuple[DataFrame, DataFrame]) -> None:
    """Nothing if the acknowledged rows sum to what counted records sum to, computed without windows and sets."""
    chosen, fates = records
    acked = {"events": written.events, **dict(zip(family.parts, written.sums, strict=True))}
    expected = {"events": considered_events(fates), **counted_totals(chosen, fates, family).collect()[0].asDict()}
    if acked != expected:
        raise TallyError(f"rebuild {token} of {family.name}: rows sum to {acked}, records to {expected}; nothing was published")
    _say(f"{family.name}: rows sum to what the records sum to: {acked}")


def _tell_conflicts(job: Job, family: Family, chosen: DataFrame, fates: DataFrame) -> None:
    conflicts = fates.where(F.col("fate") == CONFLICT).select("partition", "offset")
    found = chosen.join(F.broadcast(conflicts), on=["partition", "offset"], how="left_semi").collect()
    sent = _notices(job).conflicts(family, [row.asDict() for row in found])
    _say(f"{family.name}: {sent} conflicts in dead-letters")


def _notices(job: Job) -> Notices:
    return Notices(kafka_producer(job.settings), job.settings.partitions)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
