"""What the lines of a receipt add, by rules that are data: the first match of each list applies.

A source of receipts has the rules in its folder (rules.yaml). Totals by line, as those by article,
are added up by this same function, so that they cannot differ from the sum of the receipt.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Annotated, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from tally.events.receipt_chain import parse_chain_position

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
# The difference between a till's rounding of totals and of lines; only Tally makes this type.
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
# In `pos:store:till:epoch:number`; the identity of a receipt that adds nothing ends with a rule id.
_COLONS = 4


class StrictStruct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the file: an unknown field is a mistake, and None matches any value."""


class LineWhen(StrictStruct, frozen=True):
    """Which lines a rule matches: by their receipt's kind, by their type, by their signs."""

    kind: tuple[ReceiptKind, ...] | None = None
    type: tuple[LineType, ...] | None = None
    cancelled: bool | None = None
    amount: tuple[Sign, ...] | None = None
    total: tuple[Sign, ...] | None = None


class LineRule(StrictStruct, frozen=True):
    """A rule by which the lines that match add to these parts."""

    id: ReceiptRuleId
    when: LineWhen
    adds: dict[LinePart, Measure]


class ReceiptWhen(StrictStruct, frozen=True):
    """Which receipts a rule matches: by their kind, and by a line rule that a line of them met."""

    met: tuple[ReceiptRuleId, ...]
    kind: tuple[ReceiptKind, ...] | None = None


class ReceiptRule(StrictStruct, frozen=True):
    """A rule by which the receipts that match count in these parts."""

    id: ReceiptRuleId
    when: ReceiptWhen
    adds: dict[Literal["receipts", "returned_receipts"], Literal[1]]


class LineFacts(NamedTuple):
    """The facts of a line that rules look at: amount in thousandths, total in minor units."""

    type: str
    cancelled: bool
    amount: int
    total: int


# Kind, type, whether cancelled, and the signs: there are only a few hundred combinations.
_Facts = tuple[str, str, bool, Sign, Sign]


class ReceiptRuleSet:
    """The rules of lines, whose last one matches all remaining lines, and those of receipts."""

    def __init__(self, lines: Sequence[LineRule], receipts: Sequence[ReceiptRule]) -> None:
        self._lines, self._receipts = lines, receipts
        self._known: dict[_Facts, LineRule] = {}

    def sum_parts(self, kind: str, lines: Iterable[LineFacts]) -> Counter[str]:
        """The numbers that a receipt adds, by part; money in minor units, units in thousandths.

        A coupon of 1.00 on an article of 5.00: `gross_minor` 500, `discounts_minor` 100,
        `units_milli` 1000, `receipts` 1.
        """
        sums: Counter[str] = Counter()
        met: set[str] = set()
        for line in lines:
            rule = self._line_rule(kind, line)
            met.add(rule.id)
            for part, measure in rule.adds.items():
                sums[part] += _measure_line(measure, line)
        sums.update(self._receipt_counts(kind, met))
        return sums

    def _receipt_counts(self, kind: str, met: set[str]) -> dict[str, int]:
        for rule in self._receipts:
            if matches_any(kind, rule.when.kind) and not met.isdisjoint(rule.when.met):
                return {str(part): count for part, count in rule.adds.items()}
        return {}

    def _line_rule(self, kind: str, line: LineFacts) -> LineRule:
        signs = _sign(line.amount), _sign(line.total)
        facts = (kind, line.type, line.cancelled, *signs)
        if facts not in self._known:
            self._known[facts] = self._find_rule(facts)
        return self._known[facts]

    def _find_rule(self, facts: _Facts) -> LineRule:
        kind, type_, cancelled, amount, total = facts
        return next(
            rule
            for rule in self._lines
            if rule.when.cancelled in (None, cancelled)
            and matches_any(kind, rule.when.kind)
            and matches_any(type_, rule.when.type)
            and matches_any(amount, rule.when.amount)
            and matches_any(total, rule.when.total)
        )


def adds_nothing(event_id: str) -> bool:
    """Whether a receipt of this identity adds nothing, by a rule or because it was cancelled.

    >>> adds_nothing("pos:1:123:0:42"), adds_nothing("pos:1:123:0:42:training")
    (False, True)
    """
    place = parse_chain_position(event_id)
    return place.is_cancellation or place.chain.count(":") > _COLONS


def matches_any(word: str, words: Collection[str] | None) -> bool:
    """Whether a rule that names these words matches this one; None matches any word."""
    return words is None or word in words


def _sign(number: int) -> Sign:
    return "zero" if number == 0 else "positive" if number > 0 else "negative"


def _measure_line(measure: Measure, line: LineFacts) -> int:
    number = line.total if "total" in measure else line.amount
    return -number if measure.startswith("-") else number
