"""Binding of values to a prepared statement, in a third of the time of the driver's bind()."""

from collections.abc import Callable, Iterable
from functools import partial
from struct import Struct
from typing import Any, TypeAlias

from cassandra import cqltypes
from cassandra.query import BoundStatement, PreparedStatement

Bind: TypeAlias = Callable[[Iterable[Any]], BoundStatement]
Pack: TypeAlias = Callable[[Any], bytes]
# An instant is milliseconds since 1970, a day days since -5877641-06-23
# (runtime.connect.CQL_DATE_ZERO).
_PACKS: dict[type, Pack] = {
    # The server announces a `text` column to clients as varchar.
    cqltypes.VarcharType: str.encode,
    cqltypes.UTF8Type: str.encode,
    cqltypes.LongType: Struct(">q").pack,
    cqltypes.DateType: Struct(">q").pack,
    cqltypes.Int32Type: Struct(">i").pack,
    cqltypes.SimpleDateType: Struct(">I").pack,
}


def binder(statement: PreparedStatement) -> Bind:
    """A function that binds values, one for each mark of the statement; None is null.

    Raises struct.error for a number that the column cannot hold, TypeError for a value of another
    type, ValueError for another count.
    """
    packs = [
        _PACKS.get(column.type) or partial(_serialize, column.type, statement.protocol_version)
        for column in statement.column_metadata
    ]

    def bind(values: Iterable[Any]) -> BoundStatement:
        bound_statement = BoundStatement(statement)
        bound_statement.values = [
            None if value is None else pack(value)
            for pack, value in zip(packs, values, strict=True)
        ]
        return bound_statement

    return bind


def _serialize(kind: Any, version: int, value: Any) -> Any:
    if isinstance(value, list):
        # Arrow yields a struct as a dict; the column takes a tuple.
        value = [tuple(entry.values()) if isinstance(entry, dict) else entry for entry in value]
    return kind.serialize(value, version)
