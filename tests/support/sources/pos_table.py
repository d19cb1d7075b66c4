"""The table of what tills say, pos_table.yaml, as messages: each case in each form in a store of
its own."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from tally.time.instants import format_utc

CASES = yaml.safe_load(Path(__file__).with_name("pos_table.yaml").read_text("utf-8"))
FORMS = ("json", "poslog")


def store_entries() -> dict[str, dict[str, Any]]:
    """What a stores file has to say of the stores of the table."""
    return {
        store_of(number, form): {"numbering": case["numbering"]}
        for number, case in enumerate(CASES)
        if "numbering" in case
        for form in FORMS
    }


def store_of(number: int, form: str) -> str:
    return f"table-{form}-{number}"


def messages(case: dict[str, Any], store: str, anchor: datetime) -> Iterator[dict[str, Any]]:
    """The case's receipts as messages of contracts, of the hour that begins at the anchor."""
    for said in case["receipts"]:
        named = ("kind", "training", "transaction_status", "revision")
        message = {
            "operation_id": store,
            "vendor_fiscal_module": "1",
            "transaction_id": str(said["number"]),
            "happened_at": format_utc(instant(said, anchor)),
            "transactions": [{"item": "Milk", **line} for line in said["lines"]],
            **{name: said[name] for name in named if name in said},
        }
        if voided := said.get("voids"):
            message["kind"] = "void"
            message["voids"] = {
                "vendor_fiscal_module": "1",
                "transaction_id": str(voided["number"]),
            }
            if "minute" in voided:
                message["voids"]["happened_at"] = format_utc(instant(voided, anchor))
        yield message


def instant(said: dict[str, int], anchor: datetime) -> datetime:
    return anchor + timedelta(days=said.get("day", 0), minutes=said["minute"])
