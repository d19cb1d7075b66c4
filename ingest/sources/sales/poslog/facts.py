"""Reads facts.yaml, the table of POSLog's words."""

from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from ingest.sources.sales.record import ReceiptStatus
from schemas.source import BadSource, read_yaml
from tally.events.receipt_rules import LINE_TYPES, LineType, StrictStruct

FILE = Path(__file__).with_name("facts.yaml")
LineRole: TypeAlias = (
    LineType | Literal["goods", "goods_back", "discount", "cancels", "nothing", "refused"]
)
StatusRole: TypeAlias = ReceiptStatus | Literal["void", "correction", "skipped", "refused"]


class LineItemFact(StrictStruct, frozen=True):
    """What an element counts as, also with Refund; the first path that is filled is its money."""

    role: LineRole = msgspec.field(name="as")
    amount: tuple[str, ...] = ()
    refund_as: LineType | None = None


class PoslogFacts(StrictStruct, frozen=True):
    """The lists of the file, each by the schema's words."""

    line_items: dict[str, LineItemFact]
    item_types: dict[str, LineType]
    refunds: tuple[str, ...]
    fuel_types: dict[str, LineType]
    amount_actions: dict[str, Literal["add", "subtract"]]
    line_actions: dict[str, Literal["counted", "cancelled"]]
    statuses: dict[str, StatusRole]
    transaction_types: dict[str, Literal["counted", "correction", "skipped"]]
    link_reasons: dict[str, Literal["void", "nothing"]]
    totals: dict[str, Literal["net", "tax", "tip"]]


@cache
def load_facts() -> PoslogFacts:
    """The table. Raises BadSource that names the file and what is wrong."""
    facts: PoslogFacts = read_yaml(FILE, PoslogFacts)
    for name, fact in facts.line_items.items():
        needs_amount = fact.role in LINE_TYPES or fact.role == "discount"
        if needs_amount != bool(fact.amount):
            raise BadSource(f"{FILE}: line_items: {name}: `amount` goes with money, and only there")
    return facts
