"""The canonical receipt, as the normaliser writes it, and the rules of rules.yaml: what a receipt,
line by line, adds to its window.

The rules are applied only here, where a message becomes a canonical receipt. Both layers add up the
receipt's parts, so that they cannot interpret a rule in two ways.
"""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec

from schemas.source import BadSource, read_yaml
from tally.events import receipt_rules
from tally.events.identity import CanonicalEvent
from tally.events.receipt_rules import LineFacts, LineType, ReceiptKind, StrictStruct

MAX_REVISION = 999_999_999


class Line(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One line of a receipt: amount in thousandths, total in minor units of its currency."""

    item: str
    item_id: str
    price: str
    amount_milli: int
    total_minor: int
    category: str | None = None
    line_type: LineType = "item"
    cancelled: bool = False


class VoidedReceipt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The receipt that a void takes back.

    Without till and numbering epoch it is the store's only receipt with this number or reference.
    Versions up to `revision` are taken back, all if it is None. `voided_at` is the time of the void
    if the void's `happened_at` is that of the receipt.
    """

    till_id: str | None = None
    transaction_id: str
    numbering_epoch: str | None = None
    revision: int | None = None
    voided_at: str | None = None


class CanonicalReceipt(CanonicalEvent, frozen=True, omit_defaults=True, kw_only=True):
    """One receipt, normalised: instants as UTC text, money in minor units, units in thousandths.

    `rule` is the rule by which it adds nothing, None for a receipt that counts. `reference` is
    another name of the receipt. The version with the highest `revision` counts; of versions
    without a number the one that was closed last.
    """

    till_id: str
    transaction_id: str
    numbering_epoch: str
    kind: str
    currency: str
    receipts: int
    gross_minor: int
    discounts_minor: int
    returns_minor: int
    voids_minor: int
    units_milli: int
    returned_receipts: int
    non_sales_minor: int
    lines: tuple[Line, ...]
    rounding_minor: int = 0
    voids: VoidedReceipt | None = None
    loyalty_hash: str | None = None
    rule: str | None = None
    reference: str | None = None
    revision: int | None = None


FILE = Path(__file__).with_name("rules.yaml")
# Whether the receipt was paid, or may still change.
ReceiptStatus: TypeAlias = Literal[
    "finished", "suspended", "cancelled", "incomplete", "in_process", "failed", "voided", "resumed"
]
STATUSES = get_args(ReceiptStatus)
# A receipt that counted no longer counts with one of these.
ENDINGS: tuple[ReceiptStatus, ...] = ("cancelled", "voided")


class ExclusionWhen(StrictStruct, frozen=True):
    """The condition of a `left_out` rule: the receipts to which it applies."""

    training: bool | None = None
    status: tuple[ReceiptStatus, ...] | None = None


class ExclusionRule(StrictStruct, frozen=True):
    """A rule by which receipts add nothing."""

    id: receipt_rules.ReceiptRuleId
    when: ExclusionWhen


class PostVoid(StrictStruct, frozen=True):
    """A void that names its receipt takes back what a receipt of this kind with its lines adds."""

    id: receipt_rules.ReceiptRuleId
    takes_back_as: ReceiptKind


class RuleTable(StrictStruct, frozen=True):
    """The file: three lists, in each of which the first matching rule decides, and a void rule."""

    left_out: tuple[ExclusionRule, ...]
    lines: tuple[receipt_rules.LineRule, ...]
    receipts: tuple[receipt_rules.ReceiptRule, ...]
    post_void: PostVoid


@cache
def load_rules() -> RuleTable:
    """The rules. Raises BadSource that names the file and what is wrong."""
    table: RuleTable = read_yaml(FILE, RuleTable)
    if table.lines[-1].when != receipt_rules.LineWhen():
        raise BadSource(f"{FILE}: lines: the last rule must match whatever no other does")
    return table


def exclusion_rule_id(training: bool, status: ReceiptStatus) -> str | None:
    """The id of the rule by which a receipt adds nothing; None for one that counts."""
    for rule in load_rules().left_out:
        is_so = rule.when.training in (None, training)
        if is_so and receipt_rules.matches_any(status, rule.when.status):
            return rule.id
    return None


def sum_receipt_parts(kind: ReceiptKind, lines: Iterable[LineFacts]) -> Counter[str]:
    """What a receipt of these lines adds, by part, as ReceiptRuleSet.sum_parts has it."""
    return _adding_rules().sum_parts(kind, lines)


def sum_void_parts(lines: Iterable[LineFacts]) -> Counter[str]:
    """What a void of these lines that names its receipt adds, by part, as `sum_receipt_parts` does.

    It is the negative of what the receipt adds. For the example of ReceiptRuleSet.sum_parts:
    `gross_minor` -500, `discounts_minor` -100, `units_milli` -1000, `receipts` -1.
    """
    sums = sum_receipt_parts(load_rules().post_void.takes_back_as, lines)
    return Counter({part: -value for part, value in sums.items()})


@cache
def _adding_rules() -> receipt_rules.ReceiptRuleSet:
    return receipt_rules.ReceiptRuleSet(load_rules().lines, load_rules().receipts)
