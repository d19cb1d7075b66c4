"""Rows of what Spark's workers get and give as columns."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa


def rows_of(columns: pa.RecordBatch | pa.Table) -> Iterator[tuple[Any, ...]]:
    """Its rows, in their order: Python values in the order of the columns."""
    # A column at a time: a call for each value takes several times as long.
    return zip(*(column.to_pylist() for column in columns.columns), strict=True)
