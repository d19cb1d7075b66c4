"""The query of the raw receipts: each as it arrived, the first by offset wins; stateless, with a checkpoint of its own."""

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby, islice
from typing import Any

import pyarrow as pa
from cassandra.cluster import PreparedStatement, Session
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.query import StreamingQuery

from speed_layer.sink.rows import for_workers, worker_session
from speed_layer.sink.writer import one_partition, write_all
from tally.settings import Settings

QUERY = "receipts"
TABLE = "raw_pos_transaction_byday"
COLUMNS = (
    "year_day", "operation_id", "happened_at", "vendor_fiscal_module", "transaction_id", "numbering_epoch", "transactions",
    "kind", "currency", "event_id", "source_partition", "source_offset",
)  # fmt: skip
_BATCHES_AT_ONCE = 500
_RECEIPTS_A_BATCH = 50
_ACKS = "receipts bigint"
_ACK_TYPES = pa.schema([("receipts", pa.int64())])

Row = tuple[Any, ...]


def receipts(records: DataFrame) -> DataFrame:
    """One row per canonical receipt, in the columns of raw_pos_transaction_byday.

    In:  value string (canonical JSON), partition int, offset bigint.
    Out: COLUMNS; happened_at bigint (milliseconds, UTC), transactions array of string: each line as its JSON text.
    """
    texts = ("store_id", "happened_at", "till_id", "transaction_id", "numbering_epoch", "kind", "currency", "event_id")
    # Lines read as strings keep their JSON text.
    fields = [T.StructField(name, T.StringType()) for name in texts]
    wire = T.StructType([*fields, T.StructField("lines", T.ArrayType(T.StringType()))])
    parsed = records.select(F.from_json("value", wire).alias("receipt"), "partition", "offset")
    happened_at = F.col("receipt.happened_at").cast("timestamp")
    return parsed.select(
        F.date_format(happened_at, "yyyy-MM-dd").alias("year_day"), F.col("receipt.store_id").alias("operation_id"),
        F.unix_millis(happened_at).alias("happened_at"), F.col("receipt.till_id").alias("vendor_fiscal_module"),
        "receipt.transaction_id", "receipt.numbering_epoch", F.col("receipt.lines").alias("transactions"), "receipt.kind",
        "receipt.currency", "receipt.event_id",
        F.col("partition").alias("source_partition"), F.col("offset").alias("source_offset"),
    )  # fmt: skip


def start_receipts(records: DataFrame, settings: Settings) -> StreamingQuery:
    """The running query."""

    def write(batch: DataFrame, number: int) -> None:
        write_receipts(receipts(batch), settings)

    query = records.writeStream.queryName(QUERY).option("checkpointLocation", str(settings.checkpoint(QUERY))).foreachBatch(write)
    return query.trigger(processingTime=f"{settings.receipts_trigger_seconds} seconds").start()


def write_receipts(rows: DataFrame, settings: Settings) -> int:
    """Receipts written and acknowledged by the executors, in one action; how many."""

    known = for_workers(settings)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        written = ReceiptSink(worker_session(known)).write(batches)
        yield pa.RecordBatch.from_pylist([{"receipts": written}], schema=_ACK_TYPES)

    sorted_rows = rows.sortWithinPartitions("operation_id", "year_day")
    acks = sorted_rows.mapInArrow(write, _ACKS).collect()
    return sum(ack.receipts for ack in acks)


class ReceiptSink:
    """Writes receipts, those of one store and day together."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._insert = _prepared(session)

    def write(self, batches: Iterable[pa.RecordBatch]) -> int:
        """How many receipts were acknowledged. Rows come sorted by store and day."""
        rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
        batches_of_one_partition = (some for _, group in groupby(rows, key=lambda row: row[:2]) for some in _cut(group))
        written = 0
        while some := list(islice(batches_of_one_partition, _BATCHES_AT_ONCE)):
            write_all(self._session, [one_partition([self._insert.bind(_values(row)) for row in group]) for group in some])
            written += sum(map(len, some))
        return written


def _cut(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while some := list(islice(rows, _RECEIPTS_A_BATCH)):
        yield some


def _values(row: Row) -> tuple[Any, ...]:
    # A min-register: the lower the offset, the higher the write timestamp.
    return (*row, -row[-1])


@cache
def _prepared(session: Session) -> PreparedStatement:
    marks = ", ".join("?" * len(COLUMNS))
    statement = session.prepare(f"INSERT INTO {session.keyspace}.{TABLE} ({', '.join(COLUMNS)}) VALUES ({marks}) USING TIMESTAMP ?")
    statement.is_idempotent = True
    return statement
