"""Reads facts.yaml, the table of POSLog's words."""

from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from ingest.contract.tables import read_table, wrong_table
from ingest.sources.sales.record import ReceiptStatus
from tally.events.receipt_rules import LINE_TYPES, LineType, StrictStruct

FILE = Path(__file__).with_name("facts.yaml")
LineRole: TypeAlias = (
    LineType | Literal["goods", "goods_back", "discount", "cancels", "nothing", "refused"]
)
StatusRole: TypeAlias = ReceiptStatus | Literal["void", "correction", "skipped", "refused"]


class LineItemFact(StrictStruct, frozen=True):
    """What an element of a LineItem counts as, and the paths of its money; the first path counts.

    `refund_as` is the type of an element with Refund="true".
    """

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
    facts = read_table(FILE, PoslogFacts)
    for name, fact in facts.line_items.items():
        needs_amount = fact.role in LINE_TYPES or fact.role == "discount"
        if needs_amount != bool(fact.amount):
            raise wrong_table(FILE, f"line_items: {name}: `amount` goes with money, and only there")
    return facts
