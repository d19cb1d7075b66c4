"""Rebuild and publication of a family: token, pin, compute, write, check, flip, announce."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from cassandra.cluster import Session
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_layer.views.compute.classification import (
    CONFLICT,
    UNREADABLE,
    WAITING,
    classify_records,
    select_unreported,
)
from batch_layer.views.compute.computation import (
    PinnedRecords,
    Survey,
    compute,
    period_days,
    read_day_links,
)
from batch_layer.views.compute.pin import pin_master
from batch_layer.views.compute.scope import (
    Coverage,
    RebuildRequest,
    RebuildScope,
    all_days,
    days_between,
    dirty_days,
    newest,
)
from batch_layer.views.publish.announcements import MAX_MESSAGE_BYTES, Announcements, Outbox
from batch_layer.views.publish.check import check_generation, refuse_unequal
from batch_layer.views.publish.pointer import PointerTable, RebuildRun
from batch_layer.views.publish.registers import (
    conflicting_tills,
    write_answered_spans,
    write_day_spans,
    write_findings,
    write_ledger,
)
from batch_layer.views.publish.written_rows import write_generation
from runtime.connect import kafka_producer
from runtime.kafka.broker_clock import read_broker_time
from runtime.records.gaps import read_backfills, read_gaps
from tally.config.keys import load_digest_key
from tally.config.settings import Settings
from tally.families.family import Family
from tally.time.instants import format_utc


@dataclass(frozen=True)
class RebuildJob:
    """The session, settings, days and families that a rebuild works with."""

    spark: SparkSession
    session: Session
    settings: Settings
    request: RebuildRequest
    families: Sequence[Family]
    dry_run: bool = False


@dataclass(frozen=True)
class PublicationResult:
    """Counts of the publication of one family, and its generation."""

    days: int
    rows: int
    changed_windows: int
    generation: int


def publish(job: RebuildJob, family: Family) -> PublicationResult:
    """Rebuild the family's wanted days under a new generation and publish it by one pointer flip.

    Raises TallyError when a check fails, PublicationRefused when a later run was faster; readers
    then keep the earlier generation.
    """
    table, outbox = PointerTable(job.session, family.name), Outbox(job.session, family)
    # This repairs a crash after the flip of an earlier run.
    table.record_history()
    if not job.dry_run:
        outbox.send_remaining(table, _announcements(job))
    # Before the pin: a run that pinned early and took its token late would publish less than is
    # served, and no fence would stop it.
    token = 0 if job.dry_run else table.take_token()
    pinned = _pin_family(job, family, table)
    try:
        days = _select_days(job.request, job.settings, family, pinned)
        until = format_utc(min(pinned.pin.through.values()))
        _print_progress(
            f"{family.name}: {len(days)} days to rebuild from version {pinned.pin.version} of the"
            f" master dataset, with all that had arrived by {until}"
        )
        if not days or job.dry_run:
            return PublicationResult(len(days), 0, 0, 0)
        outbox.open_run(token, days[0])
        rows, changed = _write_and_check(job, family, pinned, days, token)
        # Made once for all attempts of the flip: with a new instant for each, history and pointer
        # would differ after a lost answer.
        extent = pinned.pin.version, pinned.pin.until
        flipped_at = read_broker_time(job.settings)
        generation = RebuildRun(family.name, token, family.epochs, *extent, flipped_at)
        # All days at once: readers see the whole of a rebuild or nothing of it.
        table.flip({day: pinned.coverage.claim(day) for day in days}, generation)
        # Sent after the flip: a subscriber that reads a restated window must find its new numbers.
        outbox.send(token, _announcements(job))
        _print_progress(f"{family.name}: generation {token} published, {changed:,} windows changed")
        return PublicationResult(len(days), rows, changed, token)
    finally:
        pinned.fates.unpersist()


def _pin_family(job: RebuildJob, family: Family, table: PointerTable) -> PinnedRecords:
    pin, master = pin_master(job.spark, job.settings, family, read_broker_time(job.settings))
    current = table.current()
    pin = pin.with_earlier(current.values())
    # Persisted: survey, rows, check and letters all use it, and it is a sort of all records.
    fates = classify_records(master).persist()
    survey = Survey.from_fates(fates)
    backfills = read_backfills(job.session, family.name)
    coverage = Coverage(
        through=pin.through,
        first_arrival=survey.first_arrival,
        tolerance=timedelta(seconds=job.settings.future_tolerance_seconds),
        backfills=[(given.first, given.last) for given in backfills],
        gaps=read_gaps(job.session, family.source_topics),
    )
    return PinnedRecords(pin, master, fates, survey, current, coverage)


def _select_days(
    request: RebuildRequest, settings: Settings, family: Family, pinned: PinnedRecords
) -> list[date]:
    """The days to rebuild, ascending."""
    scope = RebuildScope(family.epochs, pinned.coverage, pinned.survey.until())
    if request.mode == "days" and request.first and request.last:
        days = {*days_between(request.first, request.last)}
        outdated = dirty_days(scope, pinned.current, ())
        # Whole key periods are rebuilt: otherwise a visit could be joined on one day and still be
        # counted on the next. Periods of a changed day among them follow too: after this run no
        # other would know of the change.
        more = period_days(settings, family, pinned, [*days])
        while not more <= days:
            days |= more
            more = period_days(settings, family, pinned, [*(days & outdated)])
        return sorted(days)
    if request.mode == "full":
        return newest(all_days(scope, pinned.current))
    dirty = dirty_days(scope, pinned.current, read_day_links(pinned))
    return newest(dirty | period_days(settings, family, pinned, [*dirty]))


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
    write_ledger(job.session, family, token, pinned.survey.ledger())
    if waiting := pinned.survey.count(WAITING):
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
    """Write the rows under the token, read them back and check them; counts as above."""
    computed = compute(job.spark, job.settings, family, pinned, days)
    rows = write_generation(computed.rows, job.settings, family, token)
    _print_progress(f"{family.name}: {rows:,} rows written under generation {token}")
    earlier = {day: pointer.generation for day, pointer in pinned.current.items()}
    checked = check_generation(computed.expected, job.settings, family, token, earlier)
    refuse_unequal(checked.unequal, family, token)
    _print_progress(
        f"{family.name}: {checked.windows:,} windows read back, each holds what its records sum to"
    )
    write_day_spans(job.session, family, checked)
    write_answered_spans(job.session, family, token, days, computed.answered_spans)
    return rows, checked.changed


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
