"""Conditions of rules: their negations, and whether two of them can hold at once."""

import re
from collections.abc import Mapping
from decimal import Decimal

from msgspec import structs

from alerting.rules.rule import AgainstBaseline, ComparisonSign, Condition, Threshold

OPPOSITE: Mapping[ComparisonSign, ComparisonSign] = {
    ">=": "<",
    ">": "<=",
    "<=": ">",
    "<": ">=",
}
# A higher value fulfils a condition with one of these signs.
UPWARD: tuple[ComparisonSign, ...] = (">=", ">")
_WITH_EQUAL = (">=", "<=")
_CHANGE = re.compile(r"(<=|>=) ([+-]?\d{1,4}) ?%\Z", re.ASCII)


def negate(condition: Condition) -> Threshold | None:
    """The condition that holds exactly where this one does not; None for a baseline condition.

    >>> negate(Threshold(">=", Decimal(6)))
    Threshold(op='<', value=Decimal('6'))
    """
    if isinstance(condition, Threshold):
        return structs.replace(condition, op=OPPOSITE[condition.op])
    return None


def has_same_form(condition: Condition, clear: Condition) -> bool:
    """Whether both compare the same number: the value, or its distance from one baseline."""
    if isinstance(condition, Threshold) or isinstance(clear, Threshold):
        return type(condition) is type(clear)
    return (condition.baseline, condition.sigmas is None) == (
        clear.baseline,
        clear.sigmas is None,
    )


def overlap(condition: Condition, clear: Condition) -> bool:
    """Whether some value fulfils both of two conditions of the same form.

    >>> overlap(Threshold(">=", Decimal(6)), Threshold("<=", Decimal(6)))
    True
    >>> overlap(Threshold(">=", Decimal(6)), Threshold("<", Decimal(6)))
    False
    """
    if isinstance(condition, AgainstBaseline) and condition.sigmas is not None:
        # The condition is a minimum distance from the baseline, `clear` a maximum, either way.
        return isinstance(clear, AgainstBaseline) and (clear.sigmas or 0) >= condition.sigmas
    # Each is a half line: two that point the same way always overlap, wherever they begin.
    raising, clearing = _half_line(condition), _half_line(clear)
    up, down = (raising, clearing) if raising.op in UPWARD else (clearing, raising)
    if (up.op in UPWARD) == (down.op in UPWARD):
        return True
    both_equal = up.op in _WITH_EQUAL and down.op in _WITH_EQUAL
    return down.value > up.value or (down.value == up.value and both_equal)


def parse_change(change: str) -> Threshold:
    """The change that a baseline rule names, as a threshold in percent of the baseline.

    Raises ValueError.

    >>> parse_change("<= -30 %")
    Threshold(op='<=', value=Decimal('-30'))
    """
    matched = _CHANGE.match(change)
    if matched is None:
        raise ValueError(f"{change!r} is no change in percent, e.g. `<= -30 %`")
    return Threshold("<=" if matched[1] == "<=" else ">=", Decimal(matched[2]))


def _half_line(condition: Condition) -> Threshold:
    return condition if isinstance(condition, Threshold) else parse_change(condition.change or "")
