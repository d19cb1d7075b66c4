"""How far the master dataset reaches, told to the serving layer.

A day with records beyond a generation's pin is dirty.
"""

from collections.abc import Iterable
from datetime import datetime

from cassandra.cluster import Session
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from runtime.marks import Mark
from runtime.offsets import TopicOffsets
from runtime.writes import write_rows

# The write timestamp is what the row is about, an offset or an instant: of two tries, or two
# ingesters, the one that came further stays, in whichever order they write.
_DAY = (
    "INSERT INTO master_progress (family, day, partition, until) VALUES (?, ?, ?,"
    " ?) USING TIMESTAMP ?"
)
_POSITION = (
    "INSERT INTO master_position (family, partition, until) VALUES (?, ?, ?) USING TIMESTAMP ?"
)
_CURRENT = "INSERT INTO master_current (family, current_at) VALUES (?, ?) USING TIMESTAMP ?"


def read_days(records: DataFrame) -> list[Row]:
    """What the records come to, one row for each source, event_date and partition.

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


def last_marks(days: Iterable[Row]) -> dict[str, dict[int, Mark]]:
    """By source and partition the mark of the last record (by offset) among read_days()."""
    marks: dict[str, dict[int, Mark]] = {}
    # A partition has a row for each day that it has records of: the one that reaches furthest
    # overwrites the others.
    for day in sorted(days, key=lambda day: day["until"]):
        last = Mark(**day["last"].asDict())
        marks.setdefault(day["source"], {})[day["partition"]] = last
    return marks


def note_days(session: Session, days: Iterable[Row]) -> None:
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


def note_position(session: Session, end: TopicOffsets) -> None:
    """Upsert how far each partition has been read, markers of transactions included.

    A max-register by offset.
    """
    rows = [
        (topic, number, offset, offset)
        for topic, offsets in end.items()
        for number, offset in offsets.items()
    ]
    write_rows(session, _POSITION, rows)


def note_current(session: Session, families: Iterable[str], at: datetime) -> None:
    """Upsert up to when everything committed had been read (a max-register by that instant).

    Raises Unacknowledged after one try: the next instant says more.
    """
    rows = ((family, at, int(at.timestamp() * 1_000_000)) for family in families)
    write_rows(session, _CURRENT, rows, seconds=0)
