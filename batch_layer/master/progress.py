"""Progress of the master dataset, written to Cassandra for the serving layer.

A day with records beyond a generation's pin is dirty.
"""

from collections.abc import Iterable
from datetime import datetime

from cassandra.cluster import Session
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from runtime.cassandra.writes import write_rows
from runtime.kafka.log_identity import RecordFingerprint
from runtime.kafka.offsets import TopicOffsets

# The write timestamp is the row's own offset or instant: of two tries, or two ingesters, the one
# that got further wins, in any order of the writes.
_DAY = (
    "INSERT INTO master_progress (family, day, partition, until) VALUES (?, ?, ?,"
    " ?) USING TIMESTAMP ?"
)
_POSITION = (
    "INSERT INTO master_position (family, partition, until) VALUES (?, ?, ?) USING TIMESTAMP ?"
)
_CURRENT = "INSERT INTO master_current (family, current_at) VALUES (?, ?) USING TIMESTAMP ?"


def read_days(records: DataFrame) -> list[Row]:
    """Summarise the records, one row for each source, event_date and partition.

    In:  batch_layer.master.table.master_records().
    Out: source, event_date, partition, until bigint (first offset after), rows bigint, last
         struct<offset, timestamp_ms (since 1970), sha256> (the last record).
    """
    last = F.max_by(
        F.struct("offset", F.unix_millis("committed_at").alias("timestamp_ms"), "sha256"), "offset"
    )
    counts = (
        (F.max("offset") + 1).alias("until"),
        F.count(F.lit(1)).alias("rows"),
        last.alias("last"),
    )
    return records.groupBy("source", "event_date", "partition").agg(*counts).collect()


def last_marks(days: Iterable[Row]) -> dict[str, dict[int, RecordFingerprint]]:
    """The mark of the last record (by offset) in read_days(), by source and partition."""
    marks: dict[str, dict[int, RecordFingerprint]] = {}
    # A partition has a row for each day with records: the row that reaches furthest overwrites
    # the others.
    for day in sorted(days, key=lambda day: day["until"]):
        last = RecordFingerprint(**day["last"].asDict())
        marks.setdefault(day["source"], {})[day["partition"]] = last
    return marks


def upsert_days(session: Session, days: Iterable[Row]) -> None:
    """Upsert how far each day reaches (a max-register by offset)."""
    rows = (
        (
            day["source"],
            day["event_date"],
            day["partition"],
            day["until"],
            day["until"],
        )
        for day in days
    )
    write_rows(session, _DAY, rows)


def upsert_position(session: Session, end: TopicOffsets) -> None:
    """Upsert how far each partition has been read, markers of transactions included.

    A max-register by offset.
    """
    rows = [
        (topic, number, offset, offset)
        for topic, offsets in end.items()
        for number, offset in offsets.items()
    ]
    write_rows(session, _POSITION, rows)


def upsert_current_instant(session: Session, families: Iterable[str], at: datetime) -> None:
    """Upsert the instant up to which all commits are read (a max-register by that instant).

    Raises CassandraWriteTimeout after one try: the next instant supersedes this one.
    """
    rows = ((family, at, int(at.timestamp() * 1_000_000)) for family in families)
    write_rows(session, _CURRENT, rows, seconds=0)
