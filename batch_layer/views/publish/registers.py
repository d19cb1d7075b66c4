"""Registers that a rebuild writes beside the rows; every run may write them again.

They hold the days of stores, the values of axes, the ledger, the answered spans, and the tills with
conflicts on a day: receipts of a number used before, with other content.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from operator import itemgetter
from typing import Any

import pyarrow as pa
from cassandra.cluster import Session
from cassandra.query import BoundStatement
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from batch_layer.views.compute.classification import CONFLICT, WAITING
from batch_layer.views.publish.check import GenerationCheck
from runtime.cassandra.day_spans import activity_table, axis_table
from runtime.cassandra.writes import prepare_idempotent, read_many, write_groups, write_rows
from tally.families.family import Family
from tally.families.generation import AnsweredSpan
from tally.time.windows import day_end, day_start


def write_day_spans(session: Session, family: Family, checked: GenerationCheck) -> None:
    """Write the first and last day of each store, and of each value that an axis has in it.

    Both are registers by day number (the earlier first day and the later last day win).
    """
    # The speed layer writes the same registers: the day numbers decide, not the last writer.
    write_groups(session, ([write] for write in _build_writes(session, family, checked)))


def _build_writes(
    session: Session, family: Family, checked: GenerationCheck
) -> Iterator[BoundStatement]:
    stores = activity_table(session, family.name)
    for store, span in checked.stores.items():
        yield from stores.build_writes((store,), span)
    for axis, of_stores in checked.axes.items():
        values = axis_table(session, family.name, axis)
        for store, spans in of_stores.items():
            for value, span in spans.items():
                yield from values.build_writes((store, value), span)


def read_store_spans(session: Session, family: Family) -> pa.Table:
    """The known stores and their days: store_id, first_day, last_day (int32: days since 1970)."""
    select = "SELECT store_id, first_day, last_day FROM store_activity WHERE family = %s"
    found = session.execute(select, [family.name])
    # The two days are separate writes.
    rows = [row for row in found if row.first_day and row.last_day]
    columns = {
        "store_id": pa.array([row.store_id for row in rows], pa.string()),
        "first_day": pa.array([row.first_day.days_from_epoch for row in rows], pa.int32()),
        "last_day": pa.array([row.last_day.days_from_epoch for row in rows], pa.int32()),
    }
    return pa.table(columns)


def write_ledger(
    session: Session, family: Family, generation: int, lines: Iterable[Mapping[str, Any]]
) -> None:
    """Write the ledger of the rebuilt days, a row for each day and partition.

    In: lines: those of a Survey. Nothing is erased yet.
    """
    counts = ("committed", "counted", "duplicate", "conflict", "unreadable", WAITING)
    columns = ("event_date", "partition", *counts)
    text = (
        f"INSERT INTO batch_ledger (family, generation, day, partition, {', '.join(counts)},"
        " erased)"
        # The timestamp is the generation: the later rebuild's line wins in any order of writes.
        f" VALUES (?, ?, {', '.join('?' * len(columns))}, 0) USING TIMESTAMP ?"
    )
    values = (itemgetter(*columns)(line) for line in lines)
    write_rows(session, text, ((family.name, generation, *line, generation) for line in values))


def write_answered_spans(
    session: Session,
    family: Family,
    generation: int,
    days: Sequence[date],
    answered: Mapping[str, Sequence[AnsweredSpan]],
) -> None:
    """Write the span of windows of each store and day for which the generation answers.

    `answered`: the spans of each store, ascending.
    """
    insert = (
        "INSERT INTO answered_span (store_id, family, day, generation, since, until)"
        " VALUES (?, ?, ?, ?, ?, ?)"
    )
    rows = (
        (store_id, family.name, day, generation, *span)
        for store_id, spans in answered.items()
        for day in days
        if (span := longest_span(day, spans))
    )
    write_rows(session, insert, rows)


def longest_span(day: date, spans: Sequence[AnsweredSpan]) -> AnsweredSpan | None:
    """The longest span cut to the UTC day; a day with two spans is rare."""
    # A generation answers only for the windows of its own day.
    begins, ends = day_start(day), day_end(day)
    cut = [(max(since, begins), min(until, ends)) for since, until in spans]
    found = [span for span in cut if span[0] < span[1]]
    return max(found, key=lambda span: span[1] - span[0], default=None)


def conflicting_tills(master: DataFrame, fates: DataFrame) -> DataFrame:
    """Tills that have conflicts on a day, with their counts.

    In:  master records (the wanted days) with value, store_id, event_date, partition, offset;
         classify_records() of the same days.
    Out: store_id, day, till_id, records, conflicts (bigint).
    """
    is_conflict = F.col("fate") == CONFLICT
    conflicts = F.count_if(is_conflict).alias("conflicts")
    # Stores and days come first, since the fates have them: only the value has the till's number.
    days = F.broadcast(fates.where(is_conflict).select("store_id", "event_date").distinct())
    # Values are parsed only for the few store days that have such a till.
    judged, theirs = (
        records.join(days, on=["store_id", "event_date"], how="left_semi")
        for records in (fates, master)
    )
    till_id = F.get_json_object("value", "$.till_id").alias("till_id")
    tills = theirs.select("partition", "offset", till_id).dropDuplicates(["partition", "offset"])
    named = judged.join(tills, on=["partition", "offset"]).where("till_id IS NOT NULL")
    by_till = named.groupBy("store_id", F.col("event_date").alias("day"), "till_id").agg(
        F.count(F.lit(1)).alias("records"), conflicts
    )
    return by_till.where("conflicts > 0")


def write_findings(
    session: Session, family: Family, generation: int, days: Collection[date], found: Iterable[Row]
) -> int:
    """Write the findings of the rebuilt days and return how many there were.

    Earlier findings that the records no longer show become 0 conflicts.

    In: found: the rows of conflicting_tills().
    """
    rows = {
        (day, store_id, till_id): (records, conflicts)
        for store_id, day, till_id, records, conflicts in found
    }
    count = len(rows)
    # They are set to 0 and not deleted: a delete carries the clock's time, and would hide every
    # later finding.
    for key in _read_conflicting(session, family, days) - rows.keys():
        rows[key] = (0, 0)
    insert = (
        "INSERT INTO till_finding (family, day, store_id, till_id, generation, records, conflicts)"
        # The timestamp is the generation: the later rebuild's finding wins in any order of writes.
        " VALUES (?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
    )
    pairs = rows.items()
    written = ((family.name, *key, generation, *counts, generation) for key, counts in pairs)
    write_rows(session, insert, written)
    return count


def _read_conflicting(
    session: Session, family: Family, days: Collection[date]
) -> set[tuple[date, str, str]]:
    select = prepare_idempotent(
        session,
        "SELECT day, store_id, till_id, conflicts FROM till_finding WHERE family = ? AND day = ?",
    )
    answers = read_many(session, select, [(family.name, day) for day in days])
    found = (row for answer in answers for row in answer if row.conflicts)
    return {(row.day.date(), row.store_id, row.till_id) for row in found}
