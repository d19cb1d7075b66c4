"""Tills with conflicts on a day: receipts of a number used before, with other content."""

from collections.abc import Collection, Iterable
from datetime import date

from cassandra.cluster import Session
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from batch_layer.views.compute.classification import CONFLICT
from runtime.cassandra.reads import read_many
from runtime.cassandra.writes import prepare_idempotent, write_rows
from tally.families.family import Family


def conflicting_tills(master: DataFrame, fates: DataFrame) -> DataFrame:
    """Tills that have conflicts on a day, with their counts.

    In:  master records (the wanted days) with value, store_id, event_date, partition, offset;
         classify_records() of the same days.
    Out: store_id, day, till_id, records, conflicts (bigint).
    """
    conflicts = F.count_if(F.col("fate") == CONFLICT).alias("conflicts")
    # Stores and days come first, since the fates have them: only the value has the till's number.
    crowded = fates.where(F.col("fate") == CONFLICT)
    days = crowded.select("store_id", "event_date").distinct()
    # Values are parsed only for the few store days that have such a till.
    where = F.broadcast(days)
    judged, theirs = (
        records.join(where, on=["store_id", "event_date"], how="left_semi")
        for records in (fates, master)
    )
    till_id = F.get_json_object("value", "$.till_id").alias("till_id")
    tills = theirs.select("partition", "offset", till_id).dropDuplicates(["partition", "offset"])
    named = judged.join(tills, on=["partition", "offset"]).where("till_id IS NOT NULL")
    day = F.col("event_date").alias("day")
    by_till = named.groupBy("store_id", day, "till_id")
    records = F.count(F.lit(1)).alias("records")
    return by_till.agg(records, conflicts).where("conflicts > 0")


def write_findings(
    session: Session, family: Family, generation: int, days: Collection[date], found: Iterable[Row]
) -> int:
    """Write the findings of the rebuilt days and return how many there were.

    Earlier findings that the records no longer show become 0 conflicts.

    In: found: the rows of conflicting_tills().
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
    # They are set to 0 and not deleted: a delete carries the clock's time, and would hide every
    # later finding.
    for key in _read_conflicting(session, family, days) - rows.keys():
        rows[key] = (0, 0)
    insert = (
        "INSERT INTO till_finding (family, day, store_id, till_id, generation, records, conflicts)"
        # The timestamp is the generation: the later rebuild's finding wins in any order of writes.
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


def _read_conflicting(
    session: Session, family: Family, days: Collection[date]
) -> set[tuple[date, str, str]]:
    select = prepare_idempotent(
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
