"""Linked headers as records of the master dataset."""

from collections.abc import Iterable

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from batch_layer.links.header import RecordHeader

_COLUMNS = pa.schema(
    [
        ("source", pa.string()),
        ("event_date", pa.date32()),
        ("store_id", pa.string()),
        ("event_id", pa.string()),
        ("happened_at", pa.timestamp("us", "UTC")),
        ("fingerprint", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("committed_at", pa.timestamp("us", "UTC")),
        ("value", pa.string()),
        ("sender", pa.string()),
    ]
)


def link_rows(spark: SparkSession, headers: Iterable[RecordHeader]) -> DataFrame:
    """The headers as rows, for the fates of records beside them.

    In:  headers: of readable records.
    Out: the columns of schemas/master/events.json; of `value` there are only the names by which a
         void may call a receipt.
    """
    rows = [
        {
            "event_date": header.day,
            "store_id": header.store_id,
            "event_id": header.event_id,
            "happened_at": header.happened_at,
            "fingerprint": header.fingerprint,
            "partition": header.partition,
            "offset": header.offset,
            "committed_at": header.committed_at,
            "value": msgspec.json.encode(_name_fields(header)).decode(),
        }
        for header in headers
    ]
    return spark.createDataFrame(pa.Table.from_pylist(rows, _COLUMNS))


def _name_fields(header: RecordHeader) -> dict[str, str]:
    # Either field is as good for either name.
    return dict(zip(("reference", "transaction_id"), header.names, strict=False))
