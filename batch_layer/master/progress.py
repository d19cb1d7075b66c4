"""How far the master dataset reaches, told to the serving layer: a day with records beyond a generation's pin is dirty."""

from collections.abc import Sequence

from cassandra.cluster import Session
from cassandra.concurrent import execute_concurrent_with_args
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from batch_layer.master.positions import Until

_DAY = "INSERT INTO master_progress (family, day, partition, until) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
_POSITION = "INSERT INTO master_position (family, partition, until) VALUES (?, ?, ?) USING TIMESTAMP ?"


def note_days(session: Session, appended: DataFrame) -> int:
    """Upsert how far each day reaches (a max-register by offset); how many records there are."""
    counted = appended.groupBy("source", "event_date", "partition").agg(
        (F.max("offset") + 1).alias("until"), F.count(F.lit(1)).alias("rows")
    )
    days = counted.collect()
    _execute(session, _DAY, [(day["source"], day["event_date"], day["partition"], day["until"], day["until"]) for day in days])
    return sum(day["rows"] for day in days)


def note_position(session: Session, end: Until) -> None:
    """Upsert how far each partition has been read, markers of transactions included (a max-register by offset)."""
    rows = [(topic, number, offset, offset) for topic, offsets in end.items() for number, offset in offsets.items()]
    _execute(session, _POSITION, rows)


def _execute(session: Session, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
    prepared = session.prepare(statement)
    prepared.is_idempotent = True
    execute_concurrent_with_args(session, prepared, rows, concurrency=32, raise_on_first_error=True)
