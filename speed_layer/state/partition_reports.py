"""Reports of the operator: one for each partition that a micro-batch has read.

They return to the driver in Spark's report of the micro-batch.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, get_type_hints

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

# The name under which Spark's report has them.
METRIC = "acks"
# Reasons why a record is left out of the views; the first means that it is not.
# The order is that of their weight: a record with several reasons counts under the first, so that
# the counts add up to the records read.
SKIP_REASONS = ("", "unreadable", "repeats", "below_floor", "ahead")
NO_CRC = -1  # a checksum is never negative


@dataclass(frozen=True)
class PartitionReport:
    """State of one partition after a micro-batch.

    All its rows and announcements are acknowledged by Cassandra and Kafka. `rows` is how many were
    written. `offset` and `crc` are of the last record that was read and had a value, NO_CRC if
    there was none. `late` records found their window closed; the others were left out for the
    reason in the field's name. `frontier` is the latest instant so far, in milliseconds since 1970;
    windows that begin before `floor` are left to the rebuild. Both are None for a query that keeps
    no windows.
    """

    topic: str
    partition: int
    rows: int
    offset: int = NO_CRC
    crc: int = NO_CRC
    unreadable: int = 0
    repeats: int = 0
    below_floor: int = 0
    ahead: int = 0
    late: int = 0
    frontier: int | None = None
    floor: int | None = None


# Derived from the class, like Arrow's types below: a mismatch between Spark's and Python's columns
# would only be noticed by the first micro-batch.
SCHEMA = ", ".join(
    f"{name} {'string' if kind is str else 'bigint'}"
    for name, kind in get_type_hints(PartitionReport).items()
)


def observe_reports(reports: DataFrame) -> DataFrame:
    """Add the partition reports to Spark's report of their micro-batch (observed metrics).

    Nothing else is sent to the driver.

    In:  SCHEMA, one row for each partition that the micro-batch has read.
    Out: the same rows; Spark's report has them as a list under METRIC.
    """
    return reports.observe(
        METRIC,
        F.collect_list(
            F.struct(*(field.name for field in fields(PartitionReport))),
        ).alias(METRIC),
    )


def parse_reports(batch_report: Mapping[str, Any]) -> list[PartitionReport]:
    """The partition reports in Spark's report of a micro-batch."""
    metrics = batch_report.get("observedMetrics", {}).get(METRIC, {})
    return [PartitionReport(**values) for values in metrics.get(METRIC) or []]


def to_record_batch(reports: Iterable[PartitionReport]) -> pa.RecordBatch:
    """The reports as an Arrow batch in Spark's columns (SCHEMA)."""
    types = pa.schema(
        [
            (name, pa.string() if kind is str else pa.int64())
            for name, kind in get_type_hints(PartitionReport).items()
        ]
    )
    return pa.RecordBatch.from_pylist([asdict(report) for report in reports], schema=types)


def crc_column(value: str) -> Column:
    """CRC-32 of a value, NO_CRC for a null.

    In:  name of a column of string or binary.
    Out: crc bigint, 0 to 2^32 - 1, or NO_CRC.
    """
    return F.coalesce(
        F.crc32(F.col(value).cast("binary")),
        F.lit(NO_CRC),
    ).alias("crc")


def last_read(records: pa.Table) -> tuple[int, int]:
    """Offset and CRC-32 of the last record, in order of offset, that has a value.

    NO_CRC for both if there is none.
    """
    # Two records without a value cannot be distinguished: they are not noted.
    valued = records.filter(pc.not_equal(records["crc"], NO_CRC))
    if not valued.num_rows:
        return NO_CRC, NO_CRC
    offset, crc = valued["offset"][-1], valued["crc"][-1]
    return offset.as_py(), crc.as_py()
