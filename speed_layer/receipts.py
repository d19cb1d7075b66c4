"""The query of the raw receipts: each as it arrived, the first by offset wins; stateless, with a checkpoint of its own."""

from collections.abc import Iterable, Iterator
from functools import cache, reduce
from typing import Any

import pyarrow as pa
from cassandra.cluster import PreparedStatement, Session
from cassandra.query import BoundStatement
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.query import StreamingQuery

from runtime.writes import write_groups
from speed_layer.sink.rows import for_workers, worker_session
from speed_layer.view import LEFT_OUT
from tally.families import MOST_TEXT_BYTES, SALES
from tally.frames import readable
from tally.settings import Settings

QUERY = "receipts"
TABLE = "raw_pos_transaction_byday"
COLUMNS = (
    "year_day", "operation_id", "happened_at", "vendor_fiscal_module", "transaction_id", "numbering_epoch", "transactions",
    "kind", "currency", "event_id", "source_partition", "source_offset",
)  # fmt: skip
KEYS = ("year_day", "operation_id", "happened_at", "vendor_fiscal_module", "transaction_id", "numbering_epoch")
_ACKS = "receipts bigint"
_ACK_TYPES = pa.schema([("receipts", pa.int64())])

Row = tuple[Any, ...]


def receipts(records: DataFrame) -> DataFrame:
    """One row per canonical receipt that can be counted, in the columns of raw_pos_transaction_byday.

    In:  value string (canonical JSON, or anything else), partition int, offset bigint.
    Out: COLUMNS; happened_at bigint (milliseconds, UTC), transactions array of string: each line as its JSON text. The others
    are counted (observed metric `unreadable`).
    """
    texts = ("store_id", "happened_at", "till_id", "transaction_id", "numbering_epoch", "kind", "currency", "event_id")
    # Lines read as strings keep their JSON text.
    fields = [T.StructField(name, T.StringType()) for name in texts]
    wire = T.StructType([*fields, T.StructField("lines", T.ArrayType(T.StringType()))])
    parsed = records.select(F.from_json("value", wire).alias("receipt"), readable(F.col("value"), SALES).alias("is_readable"), "*")
    happened_at = F.col("receipt.happened_at").try_cast("timestamp")
    rows = parsed.select(
        F.date_format(happened_at, "yyyy-MM-dd").alias("year_day"), F.col("receipt.store_id").alias("operation_id"),
        F.unix_millis(happened_at).alias("happened_at"), F.col("receipt.till_id").alias("vendor_fiscal_module"),
        "receipt.transaction_id", "receipt.numbering_epoch", _texts("receipt.lines").alias("transactions"), "receipt.kind",
        "receipt.currency", "receipt.event_id",
        F.col("partition").alias("source_partition"), F.col("offset").alias("source_offset"), "is_readable",
    )  # fmt: skip
    told = rows.withColumn("is_kept", F.col("is_readable") & _has_keys())
    return told.observe(LEFT_OUT, F.count_if(~F.col("is_kept")).alias("unreadable")).where("is_kept").select(*COLUMNS)


def _has_keys() -> Column:
    fits = (F.octet_length(F.col(key).cast("string")) <= MOST_TEXT_BYTES for key in KEYS)
    return F.coalesce(reduce(Column.__and__, fits), F.lit(False))


def _texts(lines: str) -> Column:
    # A list in Cassandra holds no null.
    return F.transform(lines, lambda line: F.coalesce(line, F.lit("null")))


def start_receipts(records: DataFrame, settings: Settings) -> StreamingQuery:
    """The running query."""

    def write(batch: DataFrame, number: int) -> None:
        write_receipts(batch, settings)

    query = receipts(records).writeStream.queryName(QUERY).option("checkpointLocation", str(settings.checkpoint(QUERY)))
    return query.foreachBatch(write).trigger(processingTime=f"{settings.receipts_trigger_seconds} seconds").start()


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
    """Writes receipts, many together."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._insert = _prepared(session)

    def write(self, batches: Iterable[pa.RecordBatch]) -> int:
        """How many receipts were acknowledged."""
        written = 0

        def bound() -> Iterator[list[BoundStatement]]:
            nonlocal written
            for batch in batches:
                for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    written += 1
                    # A min-register: the lower the offset, the higher the write timestamp.
                    yield [self._insert.bind((*row, -row[-1]))]

        write_groups(self._session, bound())
        return written


@cache
def _prepared(session: Session) -> PreparedStatement:
    marks = ", ".join("?" * len(COLUMNS))
    statement = session.prepare(f"INSERT INTO {session.keyspace}.{TABLE} ({', '.join(COLUMNS)}) VALUES ({marks}) USING TIMESTAMP ?")
    statement.is_idempotent = True
    return statement
