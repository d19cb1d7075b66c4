"""An odd message and how it is made: a good one with one thing wrong."""

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

STORE = "odd"
ACCEPTED = "accepted"
MILK = {"item": "Milk 1l", "price": 0.99, "amount": 2}


@dataclass(frozen=True)
class Odd:
    """One message: kind `pos` or `traffic`, and its outcome, `accepted` or the reason of its
    rejection."""

    name: str
    kind: str
    body: bytes
    outcome: str


def identifier_of(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", name)[:64]


def body_of(
    name: str,
    at: datetime,
    fields: dict[str, Any] | None = None,
    line: dict[str, Any] | None = None,
) -> str:
    receipt = {
        "happened_at": at.isoformat(timespec="milliseconds"),
        "operation_id": STORE,
        "vendor_fiscal_module": 1,
        "transaction_id": identifier_of(name),
        "transactions": [{**MILK, **(line or {})}],
        **(fields or {}),
    }
    return json.dumps(receipt)


def pos(
    name: str,
    outcome: str,
    at: datetime,
    fields: dict[str, Any] | None = None,
    line: dict[str, Any] | None = None,
) -> Odd:
    return Odd(name, "pos", body_of(name, at, fields, line).encode(), outcome)


def raw(name: str, outcome: str, at: datetime, old: str, new: str | bytes) -> Odd:
    """The good message with one piece of its text replaced by what no encoder would write."""
    body = body_of(name, at, {"unknown": "here"}).encode()
    assert old.encode() in body
    return Odd(
        name,
        "pos",
        body.replace(old.encode(), new.encode() if isinstance(new, str) else new, 1),
        outcome,
    )
