"""Tills whose receipt numbers seem to have begun again.

Too many of a day's records are conflicts.
"""

from collections.abc import Collection, Iterable
from datetime import date

from cassandra.cluster import Session
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from batch_layer.views.fates import CONFLICT
from runtime.reads import read_many
from runtime.writes import prepared, write_rows
from tally.families import Family

# Conflicts and their share of the day's records, at and above both of which a till's numbers have
# begun again; below, conflicts are single mistakes. Of a small till, most of its day.
_LIMITS = ((20, 10), (3, 50))
_LEAST_CONFLICTS = min(conflicts for conflicts, _ in _LIMITS)


def suspect_tills(master: DataFrame, fates: DataFrame) -> DataFrame:
    """Tills of which so many records of one day are conflicts that their numbers began again.

    That is 20 and 10 % of the day's records, or 3 and half of them.

    In:  master records (the wanted days) with value, store_id, event_date, partition, offset;
         record_fates() of the same days.
    Out: store_id, day, till_id, records, conflicts (bigint).
    """
    conflicts = F.count_if(F.col("fate") == CONFLICT).alias("conflicts")
    # First by store and day, which the fates know: the till's number lies in the value alone.
    crowded = (
        fates.groupBy("store_id", "event_date")
        .agg(conflicts)
        .where(F.col("conflicts") >= _LEAST_CONFLICTS)
    )
    # Values are parsed of the few days of stores that can have such a till.
    where = F.broadcast(crowded.select("store_id", "event_date"))
    judged, theirs = (
        records.join(where, on=["store_id", "event_date"], how="left_semi")
        for records in (fates, master)
    )
    till_id = F.get_json_object("value", "$.till_id").alias("till_id")
    tills = theirs.select("partition", "offset", till_id).dropDuplicates(["partition", "offset"])
    named = judged.join(tills, on=["partition", "offset"]).where("till_id IS NOT NULL")
    counted = named.groupBy("store_id", F.col("event_date").alias("day"), "till_id").agg(
        F.count(F.lit(1)).alias("records"), conflicts
    )
    share = F.col("conflicts") * 100 / F.col("records")
    beyond = F.lit(False)
    for least, percent in _LIMITS:
        beyond |= (F.col("conflicts") >= least) & (share >= percent)
    return counted.where(beyond)


def note_tills(
    session: Session, family: Family, generation: int, days: Collection[date], found: Iterable[Row]
) -> int:
    """How many findings were written for the rebuilt days.

    Earlier ones that the records no longer show become 0 conflicts.

    In: found: the rows of suspect_tills().
    """
    rows = {
        (
            row["day"],
            row["store_id"],
            row["till_id"],
        ): (row["records"], row["conflicts"])
        for row in found
    }
    count = len(rows)
    # Written as 0 and not deleted: a delete carries the clock's time, and would hide every later
    # finding.
    for key in _noted(session, family, days) - rows.keys():
        rows[key] = (0, 0)
    insert = (
        "INSERT INTO till_finding (family, day, store_id, till_id, generation, records, conflicts)"
        # By the generation: the later rebuild's finding stays, whichever writes last.
        " VALUES (?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
    )
    write_rows(
        session,
        insert,
        (
            (
                family.name,
                *key,
                generation,
                *counts,
                generation,
            )
            for key, counts in rows.items()
        ),
    )
    return count


def _noted(
    session: Session,
    family: Family,
    days: Collection[date],
) -> set[tuple[date, str, str]]:
    select = prepared(
        session,
        "SELECT day, store_id, till_id, conflicts FROM till_finding WHERE family = ? AND day = ?",
    )
    answers = read_many(session, select, [(family.name, day) for day in days])
    return {
        (row.day.date(), row.store_id, row.till_id)
        for answer in answers
        for row in answer
        if row.conflicts
    }
