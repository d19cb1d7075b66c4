"""A statement bound by us is the one that the driver would bind, at every limit; and what a
column cannot hold is refused."""

import struct
from typing import Any

import pytest
from cassandra import ProtocolVersion, cqltypes
from cassandra.protocol import ColumnMetadata
from cassandra.query import PreparedStatement
from hypothesis import given
from hypothesis import strategies as st

from runtime.cassandra.writes import binder

LONG = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=20)
PAIRS = cqltypes.ListType.apply_parameters(
    [cqltypes.TupleType.apply_parameters([cqltypes.LongType, cqltypes.LongType])]
)
# A column of each type that Tally writes by the million, and those that are packed by the driver
# itself: a sketch and a histogram are lists.
COLUMNS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "store_id": (cqltypes.VarcharType, TEXT),
    "name": (cqltypes.UTF8Type, TEXT),
    "day": (cqltypes.SimpleDateType, st.integers(0, 2**32 - 1)),
    "window_start": (cqltypes.DateType, LONG),
    "events": (cqltypes.LongType, LONG),
    "ttl": (cqltypes.Int32Type, st.integers(-(2**31), 2**31 - 1)),
    "lines": (cqltypes.ListType.apply_parameters([cqltypes.UTF8Type]), st.lists(TEXT, max_size=3)),
    "share": (cqltypes.DoubleType, st.floats(allow_nan=False)),
    "digests": (cqltypes.ListType.apply_parameters([cqltypes.LongType]), st.lists(LONG)),
    "buckets": (PAIRS, st.lists(st.tuples(LONG, LONG))),
}
ROWS = st.tuples(
    *(st.none() | values if name != "store_id" else values for name, (_, values) in COLUMNS.items())
)


STATEMENT = PreparedStatement(
    [ColumnMetadata("tally", "rows", name, kind) for name, (kind, _) in COLUMNS.items()],
    b"id",
    [0],
    "INSERT",
    "tally",
    ProtocolVersion.V4,
    [],
    None,
)
FITTING: list[Any] = ["1", "1", 0, 0, 0, 0, [], 0.0, [], []]


@given(ROWS)
def test_statement_is_the_one_that_the_driver_would_bind(values: tuple[Any, ...]) -> None:
    ours, theirs = binder(STATEMENT)(values), STATEMENT.bind(values)

    assert (ours.values, ours.routing_key, ours.keyspace) == (
        theirs.values,
        theirs.routing_key,
        theirs.keyspace,
    )


@pytest.mark.parametrize(
    ("place", "value", "error"),
    [
        (2, -1, struct.error),
        (2, 2**32, struct.error),
        (3, 2**63, struct.error),
        (4, 2**63, struct.error),
        (4, -(2**63) - 1, struct.error),
        (5, 2**31, struct.error),
        (4, "7", struct.error),
        (0, 7, TypeError),
        (1, 7, TypeError),
        (0, "\ud800", UnicodeEncodeError),
    ],
)
def test_what_a_column_cannot_hold_is_refused(
    place: int, value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        binder(STATEMENT)([*FITTING[:place], value, *FITTING[place + 1 :]])


@pytest.mark.parametrize(
    "pairs",
    [[[64, 2], [68, 1]], [{"lower_end": 64, "count": 2}, {"lower_end": 68, "count": 1}]],
    ids=["as the speed layer has them", "as Arrow has them"],
)
def test_pairs_are_tuples_however_a_layer_has_them(pairs: list[Any]) -> None:
    fitting = FITTING[:-1]

    ours = binder(STATEMENT)([*fitting, pairs])

    assert ours.values == STATEMENT.bind([*fitting, [(64, 2), (68, 1)]]).values


@pytest.mark.parametrize("values", [FITTING[:-1], [*FITTING, 1]])
def test_each_mark_has_a_value(values: list[Any]) -> None:
    with pytest.raises(ValueError, match="argument"):
        binder(STATEMENT)(values)
