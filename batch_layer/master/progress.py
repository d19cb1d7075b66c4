"""How far the master dataset reaches, told to the serving layer: a day with records beyond a generation's pin is dirty."""

from cassandra.cluster import Session
from cassandra.concurrent import execute_concurrent_with_args
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from batch_layer.master.positions import Until

_DAY = "INSERT INTO master_progress (family, day, partition, until) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
_POSITION = "INSERT INTO master_position (family, partition, until) VALUES (?, ?, ?) USING TIMESTAMP ?"


def note_progress(session: Session, appended: DataFrame, end: Until) -> None:
    """Upsert, as max-registers by offset, how far each day and each partition is held now."""
    days = appended.groupBy("source", "event_date", "partition").agg((F.max("offset") + 1).alias("until")).collect()
    _execute(session, _DAY, [(*day, day["until"]) for day in days])
    _execute(
        session,
        _POSITION,
        [(topic, number, offset, offset) for topic, offsets in end.items() for number, offset in offsets.items()],
    )


def _execute(session: Session, statement: str, rows: list[tuple[object, ...]]) -> None:
    prepared = session.prepare(statement)
    prepared.is_idempotent = True
    execute_concurrent_with_args(session, prepared, rows, concurrency=32, raise_on_first_error=True)
