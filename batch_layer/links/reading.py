"""Headers of records, read from files of the master dataset in the order of their offsets.

The files lie in folders that name their source and day.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from batch_layer.links.header import RecordHeader
from runtime.spark.arrow import to_rows

HeaderBatches = Iterator[list[RecordHeader]]
_ROWS_AT_ONCE = 50_000
# The names are those of receipts_by_reference() in batch_layer/views/compute/chains.py.
_HEADERS = """
    SELECT store_id, event_id, fingerprint, event_date - DATE '1970-01-01',
        epoch_us(happened_at), epoch_us(committed_at), "partition", "offset",
        list_filter(
            [json_extract_string(value, '$.reference'),
             json_extract_string(value, '$.transaction_id')],
            lambda name: name IS NOT NULL)
    FROM read_parquet($files, hive_partitioning = true, hive_types = {'event_date': DATE})
    WHERE event_id IS NOT NULL
"""
_ORDER = ' ORDER BY "partition", "offset"'
# A share's number has one digit; most other identities end otherwise.
_MAY_BE_SHARE = " AND substring(event_id, -2, 1) = ':'"
_NAMED = " AND event_id IN (SELECT unnest($names))"


def read_headers(files: Sequence[str]) -> HeaderBatches:
    """Yield the headers of the readable records in these Parquet files, some at a time."""
    yield from _read(_HEADERS + _ORDER, files)


def read_shares(files: Sequence[str]) -> HeaderBatches:
    """The same of the records that may be shares of an interval beside its first one."""
    yield from _read(_HEADERS + _MAY_BE_SHARE + _ORDER, files)


def read_named(files: Sequence[str], names: Sequence[str]) -> HeaderBatches:
    """The same of the records with these identities, in any store."""
    yield from _read(_HEADERS + _NAMED + _ORDER, files, names=[*names])


def _read(query: str, files: Sequence[str], **values: object) -> HeaderBatches:
    if not files:
        return
    with duckdb.connect() as database:
        found = database.sql(query, params={"files": [*files], **values})
        batches: pa.RecordBatchReader = found.to_arrow_reader(_ROWS_AT_ONCE)
        for batch in batches:
            yield [_to_header(row) for row in to_rows(batch)]


def _to_header(row: tuple[Any, ...]) -> RecordHeader:
    values = *row[:-1], tuple(row[-1])
    return RecordHeader(*values)
