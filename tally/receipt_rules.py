"""What the lines of a receipt add, by rules that are data: of each list the first that matches.

A source of receipts has the rules in its folder (rules.yaml). Whatever is added up by line, as by
article, is added by this very function, so that nothing can come to another sum than the receipt.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Annotated, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from tally.receipt_chain import read_place

ReceiptKind: TypeAlias = Literal["sale", "return", "void"]
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
    "total_rounding",
]
KINDS, LINE_TYPES = (get_args(words) for words in (ReceiptKind, LineType))
# By how much a till's total was rounded in another way than its lines: Tally's own, no till's.
TOTAL_ROUNDING: LineType = "total_rounding"
SENT_LINE_TYPES = tuple(word for word in LINE_TYPES if word != TOTAL_ROUNDING)
Sign: TypeAlias = Literal["negative", "zero", "positive"]
Measure: TypeAlias = Literal["total", "-total", "amount", "-amount"]
LinePart: TypeAlias = Literal[
    "gross_minor",
    "discounts_minor",
    "returns_minor",
    "voids_minor",
    "units_milli",
    "non_sales_minor",
    "rounding_minor",
]
ReceiptRuleId: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z_]{0,39}$")]
# Of the identity `pos:store:till:epoch:number`; one that adds nothing has its rule's id behind.
_COLONS = 4


class Read(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the file: what is not known there is a mistake. None says: whatever it is."""


class LineWhen(Read, frozen=True):
    """Of which lines a rule speaks: by their receipt's kind, by what they are, by their signs."""

    kind: tuple[ReceiptKind, ...] | None = None
    type: tuple[LineType, ...] | None = None
    cancelled: bool | None = None
    amount: tuple[Sign, ...] | None = None
    total: tuple[Sign, ...] | None = None


class LineRule(Read, frozen=True):
    """These lines add to these parts."""

    id: ReceiptRuleId
    when: LineWhen
    adds: dict[LinePart, Measure]


class ReceiptWhen(Read, frozen=True):
    """Of which receipts a rule speaks: by their kind, and by a rule that one of its lines met."""

    met: tuple[ReceiptRuleId, ...]
    kind: tuple[ReceiptKind, ...] | None = None


class ReceiptRule(Read, frozen=True):
    """These receipts count as one of these."""

    id: ReceiptRuleId
    when: ReceiptWhen
    adds: dict[Literal["receipts", "returned_receipts"], Literal[1]]


class LineFacts(NamedTuple):
    """What the rules ask of a line: amount in thousandths, total in minor units."""

    type: str
    cancelled: bool
    amount: int
    total: int


# Kind, type, whether cancelled, and the signs: a few hundred that there can be.
_Facts = tuple[str, str, bool, Sign, Sign]


class AddingRules:
    """The rules of lines, whose last matches whatever no other does, and those of receipts."""

    def __init__(self, lines: Sequence[LineRule], receipts: Sequence[ReceiptRule]) -> None:
        self._lines, self._receipts = lines, receipts
        self._known: dict[_Facts, LineRule] = {}

    def added(self, kind: str, lines: Iterable[LineFacts]) -> Counter[str]:
        """What a receipt of these lines adds, by part; money in minor units, units in thousandths.

        A coupon of 1.00 on an article of 5.00: `gross_minor` 500, `discounts_minor` 100,
        `units_milli` 1000, `receipts` 1.
        """
        sums: Counter[str] = Counter()
        met: set[str] = set()
        for line in lines:
            rule = self._of_line(kind, line)
            met.add(rule.id)
            for part, measure in rule.adds.items():
                sums[part] += _measured(measure, line)
        sums.update(self._of_receipt(kind, met))
        return sums

    def _of_receipt(self, kind: str, met: set[str]) -> dict[str, int]:
        for rule in self._receipts:
            if is_among(kind, rule.when.kind) and not met.isdisjoint(rule.when.met):
                return {str(part): one for part, one in rule.adds.items()}
        return {}

    def _of_line(self, kind: str, line: LineFacts) -> LineRule:
        signs = _sign(line.amount), _sign(line.total)
        facts = (kind, line.type, line.cancelled, *signs)
        if facts not in self._known:
            self._known[facts] = self._first(facts)
        return self._known[facts]

    def _first(self, facts: _Facts) -> LineRule:
        kind, type_, cancelled, amount, total = facts
        return next(
            rule
            for rule in self._lines
            if rule.when.cancelled in (None, cancelled)
            and is_among(kind, rule.when.kind)
            and is_among(type_, rule.when.type)
            and is_among(amount, rule.when.amount)
            and is_among(total, rule.when.total)
        )


def is_left_out(event_id: str) -> bool:
    """Whether a receipt of this identity adds nothing, by a rule or because it was cancelled.

    >>> is_left_out("pos:1:123:0:42"), is_left_out("pos:1:123:0:42:training")
    (False, True)
    """
    place = read_place(event_id)
    return place.is_ending or place.chain.count(":") > _COLONS


def is_among(word: str, words: Collection[str] | None) -> bool:
    """Whether a rule that names these words speaks of this one; None: of whatever it is."""
    return words is None or word in words


def _sign(number: int) -> Sign:
    return "zero" if number == 0 else "positive" if number > 0 else "negative"


def _measured(measure: Measure, line: LineFacts) -> int:
    number = line.total if "total" in measure else line.amount
    return -number if measure.startswith("-") else number
