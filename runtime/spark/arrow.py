"""Conversion of the columns that Spark's workers exchange to rows."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa


def to_rows(columns: pa.RecordBatch | pa.Table) -> Iterator[tuple[Any, ...]]:
    """The rows in their order, as Python values in the order of the columns."""
    # One column at a time: a call for each value takes several times as long.
    return zip(*(column.to_pylist() for column in columns.columns), strict=True)
