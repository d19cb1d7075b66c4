"""Conditions of rules: negated, compared with each other, and with a value without rounding."""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from alerting.rules.rule import AgainstBaseline, ComparisonSign, Condition, Threshold
from tally.alerts.baseline import ExactValue, WindowBaseline

_OPPOSITE: Mapping[ComparisonSign, ComparisonSign]
_OPPOSITE = {">=": "<", ">": "<=", "<=": ">", "<": ">="}
# A higher value fulfils a condition with one of these signs.
UPWARD: tuple[ComparisonSign, ...] = (">=", ">")
_WITH_EQUAL = (">=", "<=")
# The Decimal is the left operand, because only Decimal implements comparison with a Fraction.
_OPERATORS: Mapping[ComparisonSign, Callable[[Decimal, ExactValue], bool]] = {
    ">=": operator.le,
    ">": operator.lt,
    "<=": operator.ge,
    "<": operator.gt,
}


def negate(condition: Condition) -> Threshold | None:
    """The condition that holds exactly where this one does not; None for a baseline condition.

    >>> negate(Threshold(">=", Decimal(6)))
    Threshold(op='<', value=Decimal('6'))
    """
    if isinstance(condition, Threshold):
        return replace(condition, op=_OPPOSITE[condition.op])
    return None


def has_same_form(condition: Condition, clear: Condition) -> bool:
    """Whether both compare the same number: the value, or its distance from one baseline."""
    if isinstance(condition, Threshold) or isinstance(clear, Threshold):
        return type(condition) is type(clear)
    has_both = (condition.sigmas is None) == (clear.sigmas is None)
    return has_both and condition.baseline == clear.baseline


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


def matches_condition(
    condition: Condition, value: ExactValue, baseline: WindowBaseline | None = None
) -> bool | None:
    """Whether the value, in its metric's unit, fulfils the condition.

    None where a needed baseline is absent, or has nothing to compare with.

    >>> matches_condition(Threshold("<", Decimal("0.3")), Fraction(3, 10))
    False
    """
    if isinstance(condition, Threshold):
        return _OPERATORS[condition.op](condition.value, value)
    return None if baseline is None else _matches_baseline(condition, value, baseline)


def matches_clear(
    clear: Condition, value: ExactValue, baseline: WindowBaseline | None = None
) -> bool | None:
    """Whether the value fulfils a rule's `clear`; with `sigmas`, a maximum of deviations.

    >>> few = AgainstBaseline("hour_of_week", sigmas=2.0)
    >>> [matches_clear(few, value, WindowBaseline(10, 4)) for value in (5, 6, 10, 14, 15)]
    [False, True, True, True, False]
    """
    if isinstance(clear, Threshold) or clear.sigmas is None:
        return matches_condition(clear, value, baseline)
    if baseline is None or baseline.variance <= 0:
        return None
    return Fraction(value - baseline.mean) ** 2 <= _limit_squared(clear.sigmas, baseline)


def threshold_value(
    condition: Condition, value: float | None, baseline: WindowBaseline | None
) -> float | None:
    """The number to compare a value with, in its metric's unit, to 6 decimals; None for none.

    For deviations, which count in both directions, it is the border on the value's own side.
    """
    if isinstance(condition, Threshold):
        return float(condition.value)
    if baseline is None:
        return None
    if condition.sigmas is not None:
        if value is None or baseline.variance <= 0:
            return None
        distance = condition.sigmas * math.sqrt(baseline.variance)
        return round(float(baseline.mean) + math.copysign(distance, value - baseline.mean), 6)
    if baseline.mean <= 0:
        return None
    percent = 100 + Fraction(condition.change_threshold.value)
    return round(float(baseline.mean * percent / 100), 6)


def _matches_baseline(
    condition: AgainstBaseline, value: ExactValue, baseline: WindowBaseline
) -> bool | None:
    distance = Fraction(value - baseline.mean)
    if condition.sigmas is not None:
        # Both directions count. With a variance of zero, a distance is no number of deviations.
        far = distance**2 >= _limit_squared(condition.sigmas, baseline)
        return far if baseline.variance > 0 else None
    # A mean of zero or less has no percentages.
    if condition.change is None or baseline.mean <= 0:
        return None
    change = condition.change_threshold
    return _OPERATORS[change.op](change.value, 100 * distance / baseline.mean)


def _limit_squared(sigmas: float, baseline: WindowBaseline) -> Fraction:
    # Squares avoid the float of a root; repr() gives `sigmas` as written, not its binary value.
    return Fraction(repr(sigmas)) ** 2 * baseline.variance


def _half_line(condition: Condition) -> Threshold:
    return condition if isinstance(condition, Threshold) else condition.change_threshold
