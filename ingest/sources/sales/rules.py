"""The rules of rules.yaml: what a receipt, line by line, adds to its window.

They are read here alone, where a message becomes a canonical receipt: both layers add up what the
receipt says, so that they cannot read a rule in two ways.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from ingest.contract.tables import table_of, wrong_table

FILE = Path(__file__).with_name("rules.yaml")
ReceiptKind: TypeAlias = Literal["sale", "return", "void"]
# Whether anybody has paid, or will still change it.
ReceiptStatus: TypeAlias = Literal[
    "finished",
    "suspended",
    "cancelled",
    "incomplete",
    "in_process",
    "failed",
    "voided",
    "resumed",
]
LineType: TypeAlias = Literal[
    "item",
    "gift_card_sold",
    "gift_card_redeemed",
    "deposit",
    "deposit_refund",
    "fee",
    "donation",
    "paid_in",
    "paid_out",
    "tip",
    "tender",
    "change",
    "rounding",
    "tax",
]
KINDS, STATUSES, LINE_TYPES = (get_args(words) for words in (ReceiptKind, ReceiptStatus, LineType))
Sign: TypeAlias = Literal["negative", "zero", "positive"]
Measure: TypeAlias = Literal["total", "-total", "|total|", "amount", "-amount", "-|amount|"]
LinePart: TypeAlias = Literal[
    "gross_minor",
    "discounts_minor",
    "returns_minor",
    "voids_minor",
    "units_milli",
    "non_sales_minor",
]
RuleId: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z_]{0,39}$")]


class _Read(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the file: what is not known there is a mistake. None says: whatever it is."""


class LeftOutWhen(_Read, frozen=True):
    """Of which receipts a rule of `left_out` speaks."""

    training: bool | None = None
    status: tuple[ReceiptStatus, ...] | None = None


class LeftOutRule(_Read, frozen=True):
    """These receipts add nothing."""

    id: RuleId
    when: LeftOutWhen


class LineWhen(_Read, frozen=True):
    """Of which lines a rule speaks: by their receipt's kind, by what they are, by their signs."""

    kind: tuple[ReceiptKind, ...] | None = None
    type: tuple[LineType, ...] | None = None
    cancelled: bool | None = None
    amount: tuple[Sign, ...] | None = None
    total: tuple[Sign, ...] | None = None


class LineRule(_Read, frozen=True):
    """These lines add to these parts."""

    id: RuleId
    when: LineWhen
    adds: dict[LinePart, Measure]


class ReceiptWhen(_Read, frozen=True):
    """Of which receipts a rule speaks: by their kind, and by a rule that one of its lines met."""

    met: tuple[RuleId, ...]
    kind: tuple[ReceiptKind, ...] | None = None


class ReceiptRule(_Read, frozen=True):
    """These receipts count as one of these."""

    id: RuleId
    when: ReceiptWhen
    adds: dict[Literal["receipts", "returned_receipts"], Literal[1]]


class PostVoid(_Read, frozen=True):
    """A void that names its receipt takes back what its lines would add as one of this kind."""

    id: RuleId
    takes_back_as: ReceiptKind


class RuleTable(_Read, frozen=True):
    """The file: three lists, of each the first rule that matches decides, and the one of voids."""

    left_out: tuple[LeftOutRule, ...]
    lines: tuple[LineRule, ...]
    receipts: tuple[ReceiptRule, ...]
    post_void: PostVoid


class LineFacts(NamedTuple):
    """What the rules ask of a line: amount in thousandths, total in minor units."""

    type: LineType
    cancelled: bool
    amount: int
    total: int


@cache
def rules() -> RuleTable:
    """The rules. Raises BadSource that names the file and what is wrong."""
    table = table_of(FILE, RuleTable)
    if table.lines[-1].when != LineWhen():
        raise wrong_table(FILE, "lines: the last rule must match whatever no other does")
    return table


def left_out_by(training: bool, status: ReceiptStatus) -> str | None:
    """The id of the rule by which a receipt adds nothing; None for one that counts."""
    for rule in rules().left_out:
        is_so = rule.when.training in (None, training)
        if is_so and _is_among(status, rule.when.status):
            return rule.id
    return None


def added(kind: ReceiptKind, lines: Iterable[LineFacts]) -> Counter[str]:
    """What a receipt of these lines adds, by part; money in minor units, units in thousandths.

    A coupon of 1.00 on an article of 5.00: `gross_minor` 500, `discounts_minor` 100,
    `units_milli` 1000, `receipts` 1.
    """
    sums: Counter[str] = Counter()
    met: set[str] = set()
    for line in lines:
        signs = _sign(line.amount), _sign(line.total)
        rule = _line_rule(kind, line.type, line.cancelled, *signs)
        met.add(rule.id)
        for part, measure in rule.adds.items():
            sums[part] += _measured(measure, line)
    sums.update(_of_receipt(kind, met))
    return sums


def taken_back(lines: Iterable[LineFacts]) -> Counter[str]:
    """What a void of these lines that names its receipt adds, by part, as `added`.

    Of the receipt of `added` with the sign turned: `gross_minor` -500, `discounts_minor` -100,
    `units_milli` -1000, `receipts` -1.
    """
    sums = added(rules().post_void.takes_back_as, lines)
    return Counter({part: -value for part, value in sums.items()})


def _of_receipt(kind: ReceiptKind, met: set[str]) -> dict[str, int]:
    for rule in rules().receipts:
        if _is_among(kind, rule.when.kind) and not met.isdisjoint(rule.when.met):
            return {str(part): one for part, one in rule.adds.items()}
    return {}


# Of the few hundred that there can be.
@lru_cache(None)
def _line_rule(
    kind: ReceiptKind,
    type_: LineType,
    cancelled: bool,
    amount: Sign,
    total: Sign,
) -> LineRule:
    return next(
        rule
        for rule in rules().lines
        if rule.when.cancelled in (None, cancelled)
        and _is_among(kind, rule.when.kind)
        and _is_among(type_, rule.when.type)
        and _is_among(amount, rule.when.amount)
        and _is_among(total, rule.when.total)
    )


def _is_among(word: str, words: Collection[str] | None) -> bool:
    return words is None or word in words


def _sign(number: int) -> Sign:
    return "zero" if number == 0 else "positive" if number > 0 else "negative"


def _measured(measure: Measure, line: LineFacts) -> int:
    number = line.total if "total" in measure else line.amount
    size = abs(number) if "|" in measure else number
    return -size if measure.startswith("-") else size
