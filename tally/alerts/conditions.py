"""Conditions of rules: what they leave out, and whether two of them can hold at once."""

import re
from collections.abc import Mapping
from decimal import Decimal

from msgspec import structs

from tally.alerts.rule import AgainstBaseline, ComparisonSign, Condition, Threshold

OPPOSITE: Mapping[ComparisonSign, ComparisonSign] = {
    ">=": "<",
    ">": "<=",
    "<=": ">",
    "<": ">=",
}
# What more of it fulfils.
UPWARD: tuple[ComparisonSign, ...] = (">=", ">")
_WITH_EQUAL = (">=", "<=")
_CHANGE = re.compile(r"(<=|>=) ([+-]?\d{1,4}) ?%\Z", re.ASCII)


def negated(condition: Condition) -> Threshold | None:
    """What holds exactly where the condition does not; None against a baseline.

    >>> negated(Threshold(">=", Decimal(6)))
    Threshold(op='<', value=Decimal('6'))
    """
    if isinstance(condition, Threshold):
        return structs.replace(condition, op=OPPOSITE[condition.op])
    return None


def same_form(condition: Condition, clear: Condition) -> bool:
    """Whether both speak of one number: the value, or how far it is from one baseline."""
    if isinstance(condition, Threshold) or isinstance(clear, Threshold):
        return type(condition) is type(clear)
    return (condition.baseline, condition.sigmas is None) == (
        clear.baseline,
        clear.sigmas is None,
    )


def overlap(condition: Condition, clear: Condition) -> bool:
    """Whether some value fulfils both, of two conditions of the same form.

    >>> overlap(Threshold(">=", Decimal(6)), Threshold("<=", Decimal(6)))
    True
    >>> overlap(Threshold(">=", Decimal(6)), Threshold("<", Decimal(6)))
    False
    """
    if isinstance(condition, AgainstBaseline) and condition.sigmas is not None:
        # So far from what is usual, in either direction; `clear`: no farther than that.
        return isinstance(clear, AgainstBaseline) and (clear.sigmas or 0) >= condition.sigmas
    # Each is a half line: two that point the same way meet somewhere, whatever their ends.
    one, other = _half_line(condition), _half_line(clear)
    up, down = (one, other) if one.op in UPWARD else (other, one)
    if (up.op in UPWARD) == (down.op in UPWARD):
        return True
    both_equal = up.op in _WITH_EQUAL and down.op in _WITH_EQUAL
    return down.value > up.value or (down.value == up.value and both_equal)


def percent_of(change: str) -> Threshold:
    """The change that a baseline rule names, as a threshold in percent of the baseline.

    Raises ValueError.

    >>> percent_of("<= -30 %")
    Threshold(op='<=', value=Decimal('-30'))
    """
    found = _CHANGE.match(change)
    if found is None:
        raise ValueError(f"{change!r} is no change in percent, e.g. `<= -30 %`")
    return Threshold("<=" if found[1] == "<=" else ">=", Decimal(found[2]))


def _half_line(condition: Condition) -> Threshold:
    return condition if isinstance(condition, Threshold) else percent_of(condition.change or "")
