"""Rebuild and publication of a family: token, pin, compute, write, check, flip, announce."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property

import pyarrow as pa
from cassandra.cluster import Session
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_layer.links.linked_records import read_links
from batch_layer.links.rows import link_rows
from batch_layer.master.table import read_records
from batch_layer.views.compute.classification import (
    CONFLICT,
    UNREADABLE,
    WAITING,
    classify_records,
    select_unreported,
)
from batch_layer.views.compute.computation import PinnedRecords, Survey, compute, select_days
from batch_layer.views.compute.plan import RebuildPlan, plan_rebuild
from batch_layer.views.compute.scope import RebuildRequest
from batch_layer.views.publish.announcements import (
    LONGEST_RUN,
    MAX_MESSAGE_BYTES,
    Announcements,
    Outbox,
)
from batch_layer.views.publish.check import check_generation, refuse_unequal
from batch_layer.views.publish.pointer import PointerTable, RebuildRun
from batch_layer.views.publish.ranges import RangeProgress, split_by_month
from batch_layer.views.publish.registers import (
    conflicting_tills,
    read_store_spans,
    write_answered_spans,
    write_day_spans,
    write_findings,
    write_ledger,
)
from batch_layer.views.publish.written_rows import NewGeneration, write_generation
from runtime.connect import kafka_producer
from runtime.kafka.broker_clock import read_broker_time
from tally.config.keys import load_digest_key
from tally.config.settings import Settings
from tally.errors import PublicationRefused, Superseded
from tally.families.family import Family
from tally.families.generation import Generation
from tally.time.day_clock import days_around
from tally.time.instants import DAY_MILLIS, format_utc
from tally.time.windows import EPOCH

# A sort that does not fit into memory is spilled in parts; Spark joins small ones.
_TASKS_A_CORE = 4
_SHOWN_DAYS = 5


@dataclass(frozen=True)
class RebuildJob:
    """The session, settings, days and families that a rebuild works with.

    build_spark: builds the Spark session, or returns the one that is there; without anything to do
    it is not called.
    """

    build_spark: Callable[[], SparkSession]
    session: Session
    settings: Settings
    request: RebuildRequest
    families: Sequence[Family]

    @cached_property
    def spark(self) -> SparkSession:
        """The Spark session, with the number of tasks of a rebuild."""
        spark = self.build_spark()
        set_parallelism(spark, self.settings)
        return spark


@dataclass(frozen=True)
class PublicationResult:
    """Counts of the publication of one family, and its highest generation.

    skipped: days that other runs have published meanwhile.
    """

    days: int = 0
    rows: int = 0
    changed_windows: int = 0
    generation: int = 0
    skipped: int = 0

    def __add__(self, other: "PublicationResult") -> "PublicationResult":
        return PublicationResult(
            self.days + other.days,
            self.rows + other.rows,
            self.changed_windows + other.changed_windows,
            max(self.generation, other.generation),
            self.skipped + other.skipped,
        )


def set_parallelism(spark: SparkSession, settings: Settings) -> None:
    """Set the number of the session's shuffle partitions to that of a rebuild.

    It is no matter of the state stores, whose number is small and fixed by a first start.
    """
    tasks = settings.rebuild_tasks or _TASKS_A_CORE * spark.sparkContext.defaultParallelism
    spark.conf.set("spark.sql.shuffle.partitions", str(tasks))


def has_work(job: RebuildJob, family: Family) -> bool:
    """Whether the request has days of the family to publish; it takes no token.

    What an earlier run that died after its flip has left undone is done here.
    """
    table = PointerTable(job.session, family.name)
    table.record_history()
    Outbox(job.session, family).send_remaining(
        table, _announcements(job), lambda: read_broker_time(job.settings)
    )
    if job.request.mode != "dirty":
        return True
    plan = plan_rebuild(job.session, job.settings, job.request, family, table.current())
    if not plan.days:
        _print_plan(plan)
    return bool(plan.days)


def publish(job: RebuildJob, family: Family) -> PublicationResult:
    """Rebuild the family's wanted days and publish them: at once, or all days month by month.

    Raises TallyError when a check fails, PublicationRefused when other runs were faster; readers
    then keep the earlier generation of the days that were not published yet.
    """
    table = PointerTable(job.session, family.name)
    # Before the pin: a run that pinned early and took its token late would publish less than is
    # served, and no fence would stop it.
    token = table.take_token()
    plan = plan_rebuild(job.session, job.settings, job.request, family, table.current())
    _print_plan(plan)
    if not plan.days:
        return PublicationResult()
    rebuilt = sorted({*plan.days} - plan.kept.keys())
    pinned = read_pinned(job, plan, rebuilt) if rebuilt else None
    try:
        if pinned is not None and job.request.mode == "full":
            return _publish_ranges(job, plan, pinned, token)
        return _publish_days(job, plan, pinned, token)
    finally:
        if pinned is not None:
            pinned.fates.unpersist()


def _publish_ranges(
    job: RebuildJob, plan: RebuildPlan, pinned: PinnedRecords, token: int
) -> PublicationResult:
    """Publish month by month, so that hourly runs publish between two of them."""
    family, result = plan.family, PublicationResult()
    table, ranges = PointerTable(job.session, family.name), split_by_month(plan.days)
    progress = RangeProgress(job.session, family.name)
    published = progress.read(read_broker_time(job.settings))
    for number, (month, days) in enumerate(ranges, 1):
        name = f"{family.name}: range {number} of {len(ranges)}, {month:%Y-%m}"
        current = table.current()
        if month in published and not any(_is_redefined(plan, current, day) for day in days):
            _print_progress(f"{name}: published before the interruption")
            continue
        behind = [day for day in days if day in current and not _is_pinned(plan, current[day])]
        if behind:
            _print_progress(f"{name}: {_name_days(behind)} published with later records")
        if wanted := {day: plan.reasons[day] for day in days if day not in behind}:
            _print_progress(f"{name}: {len(wanted)} days")
            part = replace(plan, current=current, reasons=wanted)
            token = token or table.take_token()
            try:
                result += _publish_days(job, part, replace(pinned, current=current), token)
            except Superseded as error:
                _print_progress(f"{name}: {error}")
                result += PublicationResult(skipped=len(wanted))
        # Each range is a generation of its own.
        token = 0
        progress.note(month, read_broker_time(job.settings))
    progress.end({*published, *(month for month, _ in ranges)})
    return result


def _is_redefined(plan: RebuildPlan, current: Mapping[date, Generation], day: date) -> bool:
    return day not in current or current[day].epoch != plan.family.epochs.for_day(day)


def _is_pinned(plan: RebuildPlan, served: Generation) -> bool:
    return served.is_within(plan.pin.until)


def _publish_days(
    job: RebuildJob, plan: RebuildPlan, pinned: PinnedRecords | None, token: int
) -> PublicationResult:
    """Write and check the days of the plan, and publish them by one pointer flip."""
    family, outbox = plan.family, Outbox(job.session, plan.family)
    rebuilt = sorted({*plan.days} - plan.kept.keys())
    rows, changed = 0, 0
    opened_at = read_broker_time(job.settings)
    if pinned is not None and rebuilt:
        outbox.open_run(token, opened_at, rebuilt)
        rows, changed = _write_and_check(job, family, pinned, rebuilt, token)
    # Made once for all attempts of the flip: with a new instant for each, history and pointer would
    # differ after a lost answer.
    extent = plan.pin.version, plan.pin.until
    flipped_at = read_broker_time(job.settings)
    if flipped_at - opened_at > LONGEST_RUN:
        raise PublicationRefused(
            f"rebuild {token} of {family.name} has taken longer than {LONGEST_RUN}: run it again"
        )
    run = RebuildRun(
        family.name, token, family.epochs, *extent, flipped_at, plan.kept, plan.current
    )
    # All days at once: readers see the whole of it or nothing.
    skipped = PointerTable(job.session, family.name).flip(
        {day: plan.coverage.claim(day) for day in plan.days}, run
    )
    # Sent after the flip: a subscriber that reads a restated window must find its new numbers.
    outbox.send(token, {*plan.days}.difference(skipped), _announcements(job))
    if skipped:
        _print_progress(f"{family.name}: {_name_days(skipped)} published by a newer run meanwhile")
    if plan.kept:
        _print_progress(f"{family.name}: {len(plan.kept)} days cover more, by the same rows")
    if rebuilt:
        _print_progress(f"{family.name}: generation {token} published, {changed:,} windows changed")
    days = len(plan.days) - len(skipped)
    return PublicationResult(days, rows, changed, token, len(skipped))


def _name_days(days: Sequence[date]) -> str:
    names = ", ".join(day.isoformat() for day in days[:_SHOWN_DAYS])
    more = f" and {len(days) - _SHOWN_DAYS} more" if len(days) > _SHOWN_DAYS else ""
    return f"left out, {names}{more}:"


def _print_plan(plan: RebuildPlan) -> None:
    until = format_utc(min(plan.pin.through.values()))
    _print_progress(
        f"{plan.family.name}: {len(plan.days)} days to rebuild from version {plan.pin.version} of"
        f" the master dataset, with all that had arrived by {until}"
    )


def read_pinned(job: RebuildJob, plan: RebuildPlan, rebuilt: Sequence[date]) -> PinnedRecords:
    """The records that these days of the plan need (ascending, one at least), and their fates.

    Those of a full rebuild are all records, without the links to other days: it proves the links.
    """
    family, version, path = plan.family, plan.pin.version, job.settings.master_path
    if job.request.mode == "full":
        all_records = records = read_records(job.spark, path, version, family.name)
        fates = classify_records(records).persist()
    else:
        days = rebuilt
        if family.reading is not None:
            days = days_around(rebuilt, job.settings.key_days)
        records = read_records(job.spark, path, version, family.name, days)
        linked = read_links(job.session, family.name, days, plan.pin.until)
        all_records = records.unionByName(link_rows(job.spark, linked)) if linked else records
        # Persisted: survey, rows, check and letters all use it, and it is a sort of the records.
        fates = select_days(classify_records(all_records), days).persist()
    survey = Survey.from_fates(fates)
    newest = None if is_compared_whole(job, plan) else newest_records(all_records)
    return PinnedRecords(plan.pin, records, fates, survey, plan.current, newest)


def is_compared_whole(job: RebuildJob, plan: RebuildPlan) -> bool:
    """Whether the rows of all stores are compared with those that serve."""
    is_redefined = "definition" in plan.reasons.values()
    return job.request.mode != "dirty" or plan.family.reading is not None or is_redefined


def newest_records(records: DataFrame) -> DataFrame:
    """The newest record of each store.

    In:  master records.
    Out: store_id, partition, offset.
    """
    readable = records.where("store_id IS NOT NULL").groupBy("store_id", "partition")
    return readable.agg(F.max("offset").alias("offset"))


def _write_and_check(
    job: RebuildJob, family: Family, pinned: PinnedRecords, days: list[date], token: int
) -> tuple[int, int]:
    """Write and check the days and what goes with them; (rows, changed windows) as counts."""
    chosen, fates = pinned.records_on_days(days)
    rows, changed = 0, 0
    if pinned.survey.count("committed", days=days):
        rows, changed = _write_rows(job, family, pinned, days, token)
    # Both steps below are Spark jobs over the days: they run only if the survey has found some.
    uncounted = pinned.survey.count(CONFLICT, UNREADABLE, days=days)
    tills = conflicting_tills(chosen, fates).toLocalIterator() if uncounted else ()
    suspects = write_findings(job.session, family, token, days, tills)
    if uncounted:
        _send_dead_letters(job, family, chosen, select_unreported(fates, pinned.pins(job.spark)))
    write_ledger(job.session, family, token, pinned.survey.ledger(days))
    if waiting := pinned.survey.count(WAITING, days=days):
        _print_progress(
            f"{family.name}: {waiting:,} voids wait for the receipt that they take back"
        )
    if suspects:
        _print_progress(
            f"{family.name}: {suspects} tills and days with receipts of a number that was used"
            " before; `tally conflicts list` names them"
        )
    return rows, changed


def _write_rows(
    job: RebuildJob, family: Family, pinned: PinnedRecords, days: list[date], token: int
) -> tuple[int, int]:
    """Write what differs under the token, read all back and check it; counts as above."""
    computed = compute(job.spark, job.settings, family, pinned, days)
    store_days = find_store_days(job, family, pinned, days).persist()
    served = PointerTable(job.session, family.name).choices(days, pinned.current)
    generation = NewGeneration(job.settings, family, token, served)
    rows, changed = write_generation(computed.rows, store_days, generation)
    _print_progress(f"{family.name}: {rows:,} rows written under generation {token}")
    expected = computed.expected.withColumn("day", window_day()).join(
        store_days, on=["store_id", "day"], how="left_semi"
    )
    checked = check_generation(expected, job.settings, family, generation.as_published(days))
    refuse_unequal(checked.unequal, family, token)
    _print_progress(
        f"{family.name}: {checked.windows:,} windows read back, each holds what its records sum to"
    )
    write_day_spans(job.session, family, checked)
    write_answered_spans(job.session, family, token, days, computed.answered_spans)
    store_days.unpersist()
    return rows, changed


def find_store_days(
    job: RebuildJob, family: Family, pinned: PinnedRecords, days: list[date]
) -> DataFrame:
    """The stores and days whose rows are compared with those that serve, and checked.

    In:  days: those of the run.
    Out: store_id, day (int: days since 1970), distinct.
    """
    day = F.unix_date("event_date").alias("day")
    if pinned.newest is not None:
        # The fates of a store's records depend on its own records alone: without a new one all of
        # its rows are what they were.
        pins = F.broadcast(pinned.pins(job.spark, days))
        changed = pinned.newest.join(pins, on="partition").where("offset >= pinned")
        return changed.select("store_id", day).distinct()
    # Also those of which no record is left: a visit may move to another day.
    stores = job.spark.createDataFrame(read_store_spans(job.session, family))
    since_1970 = [(day - EPOCH.date()).days for day in days]
    numbers = pa.array(since_1970, pa.int32())
    dates = job.spark.createDataFrame(pa.table({"day": numbers}))
    is_active = F.expr("day BETWEEN first_day AND last_day")
    known = stores.join(F.broadcast(dates), on=is_active)
    _, fates = pinned.records_on_days(days)
    found = fates.where("store_id IS NOT NULL").select("store_id", day)
    return known.select("store_id", "day").union(found).distinct()


def window_day() -> Column:
    """The UTC day of a window.

    In:  window_start (milliseconds since 1970).
    Out: int: days since 1970.
    """
    return F.floor(F.col("window_start") / DAY_MILLIS).cast("int")


def _send_dead_letters(
    job: RebuildJob, family: Family, chosen: DataFrame, which: DataFrame
) -> None:
    place = ["partition", "offset"]
    found = chosen.join(F.broadcast(which), on=place).dropDuplicates(place)
    columns = found.select(*place, "store_id", "event_id", "fate", "committed_at", "value")
    # Not collected: the rows carry their values, and a till whose numbers begin again makes an
    # unbounded number of them.
    records = (row.asDict() for row in columns.toLocalIterator())
    sent = _announcements(job).send_dead_letters(family, records)
    _print_progress(f"{family.name}: {sent} conflicts and unreadable records in dead-letters")


def _announcements(job: RebuildJob) -> Announcements:
    settings = job.settings
    producer = kafka_producer(settings, {"message.max.bytes": MAX_MESSAGE_BYTES})
    return Announcements(producer, settings.partitions, load_digest_key(settings.home))


def _print_progress(text: str) -> None:
    # bench/rebuild.py recognises the phases of a run by words of these lines.
    print(text, file=sys.stderr, flush=True)
