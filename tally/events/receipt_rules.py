"""What counts of a receipt: one of its versions, and of that what its lines add.

All events of one receipt are its chain. Their order does not depend on the order of arrival, and
the last one decides:

    pos:1:1:0:42               the receipt
    version:+<digest>:pos:…    a correction without a number: after what was closed before it
    version:-<digest>:pos:…    the receipt was cancelled: the same, and adds nothing
    version:3:pos:1:1:0:42     its revision 3: after all lower ones
    void:3:pos:1:1:0:42        takes back all revisions up to 3
    void:pos:1:1:0:42          takes back all of them

If the last one is a void, no version counts; else it counts, and the others do not. It does not
count either if the receipt was cancelled no sooner than it was closed, regardless of its number
(docs/adr/026-revisions.md). batch_layer/views/compute/chains.py has the same rule for Spark.

What lines add follows rules that are data, in the folder of the source of receipts (rules.yaml):
the first match of each list applies. Totals by line, as those by article, are added up by this same
function, so that they cannot differ from the sum of the receipt.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Annotated, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from tally.events.identity import REVERSAL, VERSION

LAST_REVISION = 2**31 - 1
# The value of `kind` of an event that says that a receipt was cancelled.
CANCELLATION = 2
_ZEROS = re.compile(r":0+([0-9]+)\Z")
_IDENTITY = re.compile(
    rf"(?:({REVERSAL})(?:([0-9]+):)?|({VERSION})(?:([0-9]+)|([+-])[0-9a-f]{{32}}):)?(.*)", re.DOTALL
)


class ChainPosition(NamedTuple):
    """The place of an event in its chain, as far as its identity determines it.

    `kind` orders events that were closed at one time: the receipt, a correction, a cancelling.
    """

    chain: str
    revision: int
    is_void: bool
    kind: int

    @property
    def is_cancellation(self) -> bool:
        """Whether the event says that its receipt was cancelled, and adds nothing."""
        return self.kind == CANCELLATION


class ChainEvent(NamedTuple):
    """The first copy of an event, with the time when it was closed and its place in the log.

    `closed_at` may be anything that is ordered.
    """

    event_id: str
    closed_at: str
    offset: int


def parse_chain_position(event_id: str) -> ChainPosition:
    """The place of an event.

    >>> parse_chain_position("version:3:pos:1:1:0:42")
    ChainPosition(chain='pos:1:1:0:42', revision=3, is_void=False, kind=0)
    >>> parse_chain_position("void:pos:1:1:0:42").is_void
    True
    """
    match = _IDENTITY.fullmatch(event_id)
    if match is None:
        return ChainPosition(event_id, 0, False, 0)
    void, until, _, number, sign, chain = match.groups()
    if void:
        return ChainPosition(chain, LAST_REVISION if until is None else int(until), True, 0)
    kind = {"+": 1, "-": CANCELLATION}.get(sign, 0)
    return ChainPosition(chain, int(number or 0), False, kind)


def rank(event: ChainEvent) -> tuple[int, bool, str, int, int]:
    """The order of a chain's events: revision, void or not, closing, kind, offset in the log."""
    place = parse_chain_position(event.event_id)
    return (place.revision, place.is_void, event.closed_at, place.kind, event.offset)


def effective_event_ids(events: Iterable[ChainEvent]) -> set[str]:
    """The identities of the events that count, of the first copies of any receipts.

    A void without its receipt takes back the only one that is named alike, but for leading zeros.
    """
    events = [*events]
    # By name without these zeros, so that a void finds the receipt that it means.
    receipts: dict[str, set[str]] = defaultdict(set)
    for event in events:
        if not (place := parse_chain_position(event.event_id)).is_void:
            receipts[_without_zeros(place.chain)].add(place.chain)
    chains: dict[str, list[ChainEvent]] = defaultdict(list)
    for event in events:
        chain = parse_chain_position(event.event_id).chain
        alike = receipts.get(_without_zeros(chain), set())
        chains[next(iter(alike)) if len(alike) == 1 else chain].append(event)
    standing = (_effective_event(chain) for chain in chains.values())
    return {event.event_id for event in standing if event is not None}


def _effective_event(events: Sequence[ChainEvent]) -> ChainEvent | None:
    last = max(events, key=rank)
    place = parse_chain_position(last.event_id)
    if place.is_void or place.is_cancellation:
        return None if place.is_void else last
    # A cancelling has no number, so the version's number does not matter.
    is_cancelled = any(
        event.closed_at >= last.closed_at
        for event in events
        if parse_chain_position(event.event_id).is_cancellation
    )
    return None if is_cancelled else last


def _without_zeros(chain: str) -> str:
    return _ZEROS.sub(r":\1", chain)


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


class ReceiptRuleSet:
    """The rules of lines, whose last one matches all remaining lines, and those of receipts."""

    def __init__(self, lines: Sequence[LineRule], receipts: Sequence[ReceiptRule]) -> None:
        self._lines, self._receipts = lines, receipts
        # There are only a few hundred combinations of facts.
        self._line_rule = cache(self._find_rule)

    def sum_parts(self, kind: str, lines: Iterable[LineFacts]) -> Counter[str]:
        """The numbers that a receipt adds, by part; money in minor units, units in thousandths.

        A coupon of 1.00 on an article of 5.00: `gross_minor` 500, `discounts_minor` 100,
        `units_milli` 1000, `receipts` 1.
        """
        sums: Counter[str] = Counter()
        met: set[str] = set()
        for line in lines:
            signs = _sign(line.amount), _sign(line.total)
            rule = self._line_rule(kind, line.type, line.cancelled, *signs)
            met.add(rule.id)
            for part, measure in rule.adds.items():
                sums[part] += _measure_line(measure, line)
        for receipt in self._receipts:
            if matches_any(kind, receipt.when.kind) and not met.isdisjoint(receipt.when.met):
                sums.update({str(part): count for part, count in receipt.adds.items()})
                break
        return sums

    def _find_rule(
        self, kind: str, line_type: str, is_cancelled: bool, amount: Sign, total: Sign
    ) -> LineRule:
        return next(
            rule
            for rule in self._lines
            if rule.when.cancelled in (None, is_cancelled)
            and matches_any(kind, rule.when.kind)
            and matches_any(line_type, rule.when.type)
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
