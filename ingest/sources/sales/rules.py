"""The rules of rules.yaml: what a receipt, line by line, adds to its window.

They are applied only here, where a message becomes a canonical receipt. Both layers add up the
receipt's parts, so that they cannot interpret a rule in two ways.
"""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from ingest.contract.tables import table_of, wrong_table
from tally.receipt_rules import (
    AddingRules,
    LineFacts,
    LineRule,
    LineWhen,
    Read,
    ReceiptKind,
    ReceiptRule,
    ReceiptRuleId,
    is_among,
)

FILE = Path(__file__).with_name("rules.yaml")
# Whether the receipt was paid, or may still change.
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
STATUSES = get_args(ReceiptStatus)
# A receipt that counted no longer counts with one of these.
ENDINGS: tuple[ReceiptStatus, ...] = ("cancelled", "voided")


class LeftOutWhen(Read, frozen=True):
    """The condition of a `left_out` rule: the receipts to which it applies."""

    training: bool | None = None
    status: tuple[ReceiptStatus, ...] | None = None


class LeftOutRule(Read, frozen=True):
    """A rule by which receipts add nothing."""

    id: ReceiptRuleId
    when: LeftOutWhen


class PostVoid(Read, frozen=True):
    """A void that names its receipt takes back what a receipt of this kind with its lines adds."""

    id: ReceiptRuleId
    takes_back_as: ReceiptKind


class RuleTable(Read, frozen=True):
    """The file: three lists, in each of which the first matching rule decides, and a void rule."""

    left_out: tuple[LeftOutRule, ...]
    lines: tuple[LineRule, ...]
    receipts: tuple[ReceiptRule, ...]
    post_void: PostVoid


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
        if is_so and is_among(status, rule.when.status):
            return rule.id
    return None


def added(kind: ReceiptKind, lines: Iterable[LineFacts]) -> Counter[str]:
    """What a receipt of these lines adds, by part, as AddingRules.added has it."""
    return _adding().added(kind, lines)


def taken_back(lines: Iterable[LineFacts]) -> Counter[str]:
    """What a void of these lines that names its receipt adds, by part, as `added` does.

    It is the negative of what the receipt adds. For the example of AddingRules.added: `gross_minor`
    -500, `discounts_minor` -100, `units_milli` -1000, `receipts` -1.
    """
    sums = added(rules().post_void.takes_back_as, lines)
    return Counter({part: -value for part, value in sums.items()})


@cache
def _adding() -> AddingRules:
    return AddingRules(rules().lines, rules().receipts)
