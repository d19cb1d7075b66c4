"""One family rebuilt and published: token, pin, compute, write, check, flip, tell."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

from cassandra.cluster import Session
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_layer.views.announcements import MOST_MESSAGE_BYTES, Announcements
from batch_layer.views.check import check_generation, refuse_unequal
from batch_layer.views.computation import Pinned, compute, days_together, period_days
from batch_layer.views.coverage import Coverage, backfilled_days, read_gaps
from batch_layer.views.fates import WAITING, record_fates, untold
from batch_layer.views.outbox import Outbox
from batch_layer.views.pin import pin_master
from batch_layer.views.pointer import PointerTable, RebuildRun
from batch_layer.views.registers import note_answered, note_days, note_ledger
from batch_layer.views.rows import write_generation
from batch_layer.views.scope import Reach, WantedDays, all_days, days_between, dirty_days, newest
from batch_layer.views.survey import Survey
from batch_layer.views.tills import conflicting_tills, note_tills
from runtime.clock import brokers_now
from runtime.connect import kafka_producer
from runtime.sources import FAMILIES
from tally.families import Family
from tally.instants import instant_text
from tally.keys import digest_key
from tally.settings import Settings


@dataclass(frozen=True)
class RebuildJob:
    """What a rebuild works with."""

    spark: SparkSession
    session: Session
    settings: Settings
    wanted: WantedDays
    dry_run: bool = False
    families: Sequence[Family] = field(default_factory=lambda: tuple(FAMILIES.values()))


@dataclass(frozen=True)
class Published:
    """What was published of one family."""

    days: int
    rows: int
    changed_windows: int
    generation: int


def publish(job: RebuildJob, family: Family) -> Published:
    """The family's wanted days under a new generation, published by one flip of the pointer.

    Raises TallyError when a check fails, FlipRefused when a later run was faster; readers then stay
    where they were.
    """
    table, outbox = PointerTable(job.session, family.name), Outbox(job.session, family)
    # Makes good what a crash after a flip left out.
    table.record_history()
    if not job.dry_run:
        outbox.send_left(table, _announcements(job))
    # Before the pin: a run that pinned early and took its token late would publish less than is
    # served, and no fence would stop it.
    token = 0 if job.dry_run else table.take_token()
    pinned = _pinned(job, family, table)
    try:
        days = _days(job.wanted, job.settings, family, pinned)
        reach = f"version {pinned.pin.version} of the master dataset, with all that had arrived by"
        _say(
            f"{family.name}: {len(days)} days to rebuild from {reach}"
            f" {instant_text(min(pinned.pin.through.values()))}"
        )
        if not days or job.dry_run:
            return Published(len(days), 0, 0, 0)
        outbox.open(token, days[0])
        rows, changed = _write(job, family, pinned, days, token)
        # Made once for all attempts of the flip: with an instant of its own for each, history and
        # pointer would differ after a lost answer.
        generation = RebuildRun(
            family.name,
            token,
            family.epochs,
            pinned.pin.version,
            pinned.pin.until,
            brokers_now(job.settings),
        )
        # All days at once: readers see the whole of a rebuild or nothing of it.
        table.flip({day: pinned.coverage.claim(day) for day in days}, generation)
        # After the flip: who is told of a window looks, and has to find its new numbers.
        outbox.send(token, _announcements(job))
        _say(f"{family.name}: generation {token} published, {changed:,} windows changed")
        return Published(len(days), rows, changed, token)
    finally:
        pinned.fates.unpersist()


def _pinned(job: RebuildJob, family: Family, table: PointerTable) -> Pinned:
    pin, master = pin_master(job.spark, job.settings, family, brokers_now(job.settings))
    current = table.current()
    pin = pin.with_earlier(current.values())
    # Kept: survey, rows, check and letters all ask for it, and it is a sort of all records.
    fates = record_fates(master).persist()
    survey = Survey.of(fates)
    coverage = Coverage(
        through=pin.through,
        first_arrival=survey.first_arrival,
        tolerance=timedelta(seconds=job.settings.future_tolerance_seconds),
        backfills=backfilled_days(job.session, family),
        gaps=read_gaps(job.session, family),
    )
    return Pinned(pin, master, fates, survey, current, coverage)


def _days(wanted: WantedDays, settings: Settings, family: Family, pinned: Pinned) -> list[date]:
    """The days to rebuild, ascending."""
    reach = Reach(family.epochs, pinned.coverage, pinned.survey.until())
    if wanted.mode == "days" and wanted.first and wanted.last:
        days = {*days_between(wanted.first, wanted.last)}
        outdated = dirty_days(reach, pinned.current, ())
        # Whole key periods: else a visit could be joined on one day, and be told on the next still.
        # And those of a day among them that has changed too, of which nobody would know afterwards.
        more = period_days(settings, family, pinned, [*days])
        while not more <= days:
            days |= more
            more = period_days(settings, family, pinned, [*(days & outdated)])
        return sorted(days)
    if wanted.mode == "full":
        return newest(all_days(reach, pinned.current))
    dirty = dirty_days(reach, pinned.current, days_together(pinned))
    return newest(dirty | period_days(settings, family, pinned, [*dirty]))


def _write(
    job: RebuildJob, family: Family, pinned: Pinned, days: list[date], token: int
) -> tuple[int, int]:
    """(rows, changed windows) of the days, written under the token and checked.

    What else is known of them is noted and told. Nothing is served from it yet.
    """
    chosen, fates = pinned.of_days(days)
    rows, changed = (
        _write_rows(job, family, pinned, days, token)
        if pinned.survey.count("committed", days=days)
        else (0, 0)
    )
    # Each of the two below is a Spark job over the days: only where the survey has found some.
    uncounted = pinned.survey.uncounted(days)
    suspects = note_tills(
        job.session,
        family,
        token,
        days,
        conflicting_tills(chosen, fates).toLocalIterator() if uncounted else (),
    )
    if uncounted:
        _tell_uncounted(job, family, chosen, untold(fates, pinned.pins(job.spark)))
    note_ledger(job.session, family, token, pinned.survey.ledger())
    if waiting := pinned.survey.count(WAITING):
        _say(f"{family.name}: {waiting:,} voids wait for the receipt that they take back")
    if suspects:
        _say(
            f"{family.name}: {suspects} tills and days with receipts of a number that was used"
            " before; `tally conflicts list` names them"
        )
    return rows, changed


def _write_rows(
    job: RebuildJob, family: Family, pinned: Pinned, days: list[date], token: int
) -> tuple[int, int]:
    """(rows, changed windows) of the days, written under the token and checked.

    Checked against what Cassandra then holds.
    """
    computed = compute(job.spark, job.settings, family, pinned, days)
    rows = write_generation(computed.rows, job.settings, family, token)
    _say(f"{family.name}: {rows:,} rows written under generation {token}")
    earlier = {day: pointer.generation for day, pointer in pinned.current.items()}
    checked = check_generation(computed.expected, job.settings, family, token, earlier)
    refuse_unequal(checked.unequal, family, token)
    _say(
        f"{family.name}: {checked.windows:,} windows read back, each holds what its records sum to"
    )
    note_days(job.session, family, checked)
    note_answered(job.session, family, token, days, computed.answered)
    return rows, checked.changed


def _tell_uncounted(job: RebuildJob, family: Family, chosen: DataFrame, which: DataFrame) -> None:
    found = chosen.join(F.broadcast(which), on=["partition", "offset"]).dropDuplicates(
        ["partition", "offset"]
    )
    columns = found.select(
        "partition", "offset", "store_id", "event_id", "fate", "committed_at", "value"
    )
    # Not collected: they come with their values, and nothing bounds how many a till whose numbers
    # begin again makes.
    sent = _announcements(job).uncounted(
        family, (row.asDict() for row in columns.toLocalIterator())
    )
    _say(f"{family.name}: {sent} conflicts and unreadable records in dead-letters")


def _announcements(job: RebuildJob) -> Announcements:
    settings = job.settings
    producer = kafka_producer(settings, {"message.max.bytes": MOST_MESSAGE_BYTES})
    return Announcements(producer, settings.partitions, digest_key(settings.home))


def _say(text: str) -> None:
    # bench/rebuild.py knows the parts of a run by words of these lines.
    print(text, file=sys.stderr, flush=True)
