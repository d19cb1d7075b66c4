"""The query of the raw receipts, without state: each as it arrived, the first by offset wins."""

from collections.abc import Iterable, Iterator
from functools import cache, reduce

import pyarrow as pa
import pyarrow.compute as pc
from cassandra.cluster import PreparedStatement, Session
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.query import StreamingQuery

from runtime.cassandra.writes import binder, prepare_idempotent, write_groups
from runtime.connect import worker_session
from runtime.registry.sources import SALES
from runtime.spark.arrow import to_rows
from speed_layer.state.records import (
    REPORT_SCHEMA,
    PartitionReport,
    crc_column,
    last_read,
    observe_reports,
    to_record_batch,
)
from tally.config.settings import Settings
from tally.families.family import MAX_TEXT_BYTES
from tally.spark.record_columns import is_readable

QUERY = "receipts"
TABLE = "raw_pos_transaction_byday"
COLUMNS = (
    "year_day",
    "operation_id",
    "happened_at",
    "vendor_fiscal_module",
    "transaction_id",
    "numbering_epoch",
    "transactions",
    "kind",
    "currency",
    "event_id",
    "source_partition",
    # This must be the last column: the write timestamp is made of it.
    "source_offset",
)
# Those of the primary key.
KEYS = (*COLUMNS[:6], "event_id")


def parse_receipts(records: DataFrame) -> DataFrame:
    """Parse the records to rows of raw_pos_transaction_byday, one row for each record.

    In:  canonical records of a stream.
    Out: COLUMNS; happened_at bigint (milliseconds, UTC), transactions array of string: each line as
         its JSON text; then is_kept boolean (it can be counted; otherwise the columns before are
         meaningless), topic, partition, offset, crc (of its value).
    """
    texts = (
        "store_id",
        "happened_at",
        "till_id",
        "transaction_id",
        "numbering_epoch",
        "kind",
        "currency",
        "event_id",
    )
    # Lines read as strings keep their JSON text.
    wire = T.StructType([T.StructField(name, T.StringType()) for name in texts])
    wire.add("lines", T.ArrayType(T.StringType()))
    parsed = records.select(
        F.from_json("value", wire).alias("receipt"),
        is_readable(F.col("value"), SALES).alias("is_readable"),
        "*",
    )
    # Spark's casts follow ANSI: a single text that is no instant would fail the query.
    happened_at = F.col("receipt.happened_at").try_cast("timestamp")
    # A list in Cassandra cannot hold a null.
    lines = F.transform("receipt.lines", lambda line: F.coalesce(line, F.lit("null")))
    rows = parsed.select(
        F.date_format(happened_at, "yyyy-MM-dd").alias("year_day"),
        F.col("receipt.store_id").alias("operation_id"),
        F.unix_millis(happened_at).alias("happened_at"),
        F.col("receipt.till_id").alias("vendor_fiscal_module"),
        "receipt.transaction_id",
        "receipt.numbering_epoch",
        lines.alias("transactions"),
        "receipt.kind",
        "receipt.currency",
        "receipt.event_id",
        F.col("partition").alias("source_partition"),
        F.col("offset").alias("source_offset"),
        "is_readable",
        "topic",
        "partition",
        "offset",
        crc_column("value"),
    )
    is_kept = (F.col("is_readable") & _has_keys()).alias("is_kept")
    return rows.select(*COLUMNS, is_kept, "topic", "partition", "offset", "crc")


def _has_keys() -> Column:
    # A null key fails the query, and each restart: the Cassandra driver builds the partition key
    # before Cassandra can refuse it. Too long a key is refused.
    texts = (F.col(key).cast("string") for key in KEYS)
    fits = (F.octet_length(text) <= MAX_TEXT_BYTES for text in texts)
    return F.coalesce(reduce(Column.__and__, fits), F.lit(False))


def start_receipts(records: DataFrame, settings: Settings) -> StreamingQuery:
    """Start the query.

    In:  canonical records of a stream.
    Out: nothing but the partition reports in Spark's report of each micro-batch: its Spark sink
         stores no row.
    """
    reports = observe_reports(write_receipts(parse_receipts(records), settings))
    query = reports.writeStream.queryName(QUERY).format("noop")
    query = query.option("checkpointLocation", str(settings.checkpoint(QUERY)))
    return query.trigger(processingTime=f"{settings.receipts_trigger_seconds} seconds").start()


def write_receipts(rows: DataFrame, settings: Settings) -> DataFrame:
    """Write the receipts to Cassandra while the frame is read; return the partition reports.

    In:  parse_receipts().
    Out: REPORT_SCHEMA; all rows of a reported partition are acknowledged by Cassandra.
    """

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        session = worker_session(settings)
        tables = (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)
        reports = [report for table in tables for report in _write_table(session, table)]
        yield to_record_batch(reports)

    return rows.mapInArrow(write, REPORT_SCHEMA)


def _write_table(session: Session, rows: pa.Table) -> Iterator[PartitionReport]:
    """Write the rows that can be kept, then yield a report for each partition."""
    insert = binder(_prepare_insert(session))
    # The others are counted below as unreadable and skipped: no record may stop a layer.
    countable = rows.filter(rows["is_kept"]).select(COLUMNS)
    # The sort puts rows of one Cassandra partition next to each other.
    ordered = countable.sort_by([("operation_id", "ascending"), ("year_day", "ascending")])
    # The row is a min-register: the lower the offset, the higher the write timestamp.
    values = ((*row, -row[-1]) for row in to_rows(ordered))
    write_groups(session, ([insert(row)] for row in values))
    for partition in pc.unique(rows["partition"]).to_pylist():
        of_partition = rows.filter(pc.equal(rows["partition"], partition))
        count = pc.sum(of_partition["is_kept"]).as_py()
        yield PartitionReport(
            of_partition["topic"][0].as_py(),
            partition,
            count,
            *last_read(of_partition),
            unreadable=of_partition.num_rows - count,
        )


@cache
def _prepare_insert(session: Session) -> PreparedStatement:
    marks = ", ".join("?" * len(COLUMNS))
    return prepare_idempotent(
        session,
        f"INSERT INTO {session.keyspace}.{TABLE} ({', '.join(COLUMNS)})"
        f" VALUES ({marks}) USING TIMESTAMP ?",
    )
