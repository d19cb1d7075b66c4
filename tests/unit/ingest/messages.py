"""POS and people counter messages for tests, good and bad, and how they are read here."""

import json
from datetime import UTC, datetime
from typing import Any

from ingest.installation.arrival import Arrival, Rules
from ingest.sources.sales.contract import PARTS
from ingest.sources.sales.contract import normalise as normalised_receipt
from ingest.sources.sales.record import CanonicalReceipt
from ingest.sources.traffic.contract import CanonicalInterval
from ingest.sources.traffic.contract import normalise as normalised_interval
from tally.config.settings import Settings

RULES = Rules.from_settings(Settings.load({}))
ARRIVED = datetime(2017, 9, 20, 12, tzinfo=UTC)
ARRIVAL = Arrival(ARRIVED, 2, 77)

MILK = {"item": "Milk 1l", "price": 0.99, "amount": 2}
POS: dict[str, Any] = {
    "happened_at": "2017-09-19T22:48:03+00:00",
    "operation_id": 1,
    "transaction_id": 42,
    "vendor_fiscal_module": 123,
    "transactions": [MILK],
}
TRAFFIC: dict[str, Any] = {
    "store_id": "367",
    "device_id": "door-1",
    "happened_at": "2017-09-19T22:45:00+00:00",
    "interval_seconds": 60,
    "in": 3,
    "out": 2,
    "passers_by": 11,
}


def pos(**changes: Any) -> dict[str, Any]:
    """The POS message with these fields changed."""
    return {**POS, **changes}


def with_line(**changes: Any) -> dict[str, Any]:
    """The POS message whose one line has these fields changed."""
    return pos(transactions=[{**MILK, **changes}])


def without(message: dict[str, Any], name: str) -> dict[str, Any]:
    """The message without one field."""
    return {key: value for key, value in message.items() if key != name}


def encoded(message: Any) -> bytes:
    """As a till would send it."""
    return json.dumps(message).encode()


def receipt(message: Any, rules: Rules = RULES) -> CanonicalReceipt:
    """The canonical receipt of a message given as a value or as bytes."""
    return normalised_receipt(
        message if isinstance(message, bytes) else encoded(message), ARRIVAL, rules
    )


def interval(message: Any, rules: Rules = RULES) -> CanonicalInterval:
    """The canonical interval of a message given as a value or as bytes."""
    return normalised_interval(
        message if isinstance(message, bytes) else encoded(message), ARRIVAL, rules
    )


def parts(message: Any) -> dict[str, int]:
    """What a message adds, by part; parts to which it adds nothing are absent."""
    made = receipt(message)
    return {part: value for part in PARTS if (value := getattr(made, part))}
