"""What the API says, cell by cell, in the shape of the plain oracle."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from tally.time.instants import format_utc
from tests.support.oracles.plain_oracle import Cell, Parts
from tests.support.oracles.pos_oracle import revenue_of
from web.client import ApiClient

Span = tuple[datetime, datetime]


def asked_rows(api: str, metric: str, store: str, span: Span) -> list[dict[str, Any]]:
    """Every quarter hour's row, of all pages; money by currency."""
    money = {"by": "currency"} if metric == "revenue" else {}
    asked = {"store": store, "from": format_utc(span[0]), "to": format_utc(span[1]), "grain": "15m"}
    with ApiClient(api, "test", 30) as client:
        pages = client.pages(f"/v1/metrics/{metric}", {**asked, "limit": "10000", **money})
        return [row for page in pages for row in page["rows"]]


def served(api: str, metric: str, stores: Iterable[str], span: Span) -> dict[Cell, dict[str, Any]]:
    """The rows by cell; the currency is "" where the metric is no money."""
    return {
        (
            store,
            datetime.fromisoformat(row["start"]).astimezone(UTC),
            row.get("by", {}).get("currency", ""),
        ): row
        for store in stores
        for row in asked_rows(api, metric, store, span)
    }


def values(rows: dict[Cell, dict[str, Any]]) -> dict[Cell, int]:
    """The values that are not zero."""
    return {cell: row["value"] for cell, row in rows.items() if row["value"]}


def expected_values(metric: str, expected: dict[Cell, Parts]) -> dict[Cell, int]:
    """What a metric must answer of the oracle's parts, zeros left out."""
    sums: dict[Cell, int] = {}
    for (store, start, currency), parts in expected.items():
        cell = (store, start, currency if metric == "revenue" else "")
        sums[cell] = sums.get(cell, 0) + _value(metric, parts)
    return {cell: value for cell, value in sums.items() if value}


def _value(metric: str, parts: Parts) -> int:
    return revenue_of(parts) if metric == "revenue" else parts[0]
