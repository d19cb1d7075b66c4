"""How far the master dataset reaches, told to the serving layer.

A day with records beyond a generation's pin is dirty.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from cassandra.cluster import Session
from cassandra.concurrent import execute_concurrent_with_args
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from batch_layer.master.positions import Until
from runtime.marks import Mark

_DAY = (
    "INSERT INTO master_progress (family, day, partition, until) VALUES (?, ?, ?,"
    " ?) USING TIMESTAMP ?"
)
_POSITION = (
    "INSERT INTO master_position (family, partition, until) VALUES (?, ?, ?) USING TIMESTAMP ?"
)
_CURRENT = "INSERT INTO master_current (family, current_at) VALUES (?, ?) USING TIMESTAMP ?"


def read_days(records: DataFrame) -> list[Row]:
    """By source, event_date and partition what the records come to.

    First offset after, rows, and offset, timestamp_ms and sha256 of the last record.

    In:  batch_layer.master.table.master_records().
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
    """The last record of each partition among read_days()."""
    marks: dict[str, dict[int, Mark]] = {}
    for day in sorted(days, key=lambda day: day["until"]):
        marks.setdefault(day["source"], {})[day["partition"]] = Mark(**day["last"].asDict())
    return marks


def note_days(session: Session, days: Iterable[Row]) -> None:
    """Upsert how far each day reaches (a max-register by offset)."""
    _execute(
        session,
        _DAY,
        [
            (day["source"], day["event_date"], day["partition"], day["until"], day["until"])
            for day in days
        ],
    )


def note_position(session: Session, end: Until) -> None:
    """Upsert how far each partition has been read, markers of transactions included.

    A max-register by offset.
    """
    rows = [
        (topic, number, offset, offset)
        for topic, offsets in end.items()
        for number, offset in offsets.items()
    ]
    _execute(session, _POSITION, rows)


def note_current(session: Session, families: Iterable[str], at: datetime) -> None:
    """Upsert up to when everything committed had been read (a max-register by that instant)."""
    _execute(
        session, _CURRENT, [(family, at, int(at.timestamp() * 1_000_000)) for family in families]
    )


def _execute(session: Session, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
    prepared = session.prepare(statement)
    prepared.is_idempotent = True
    execute_concurrent_with_args(session, prepared, rows, concurrency=32, raise_on_first_error=True)
