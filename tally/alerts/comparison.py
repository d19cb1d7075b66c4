"""Whether a value fulfils a rule's condition, exactly: no float comes between the two."""

import math
import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from msgspec import Struct

from tally.alerts.rule import AgainstBaseline, ComparisonSign, Condition, Threshold

# A sum is whole; a ratio is both of its sums, Fraction(numerator, denominator).
ExactValue: TypeAlias = int | Fraction
# Decimal stands on the left: it knows how it compares with a fraction, not the other way round.
_HOLDS: Mapping[ComparisonSign, Callable[[Decimal, ExactValue], bool]] = {
    ">=": operator.le,
    ">": operator.lt,
    "<=": operator.ge,
    "<": operator.gt,
}


class Usual(Struct, frozen=True):
    """What a baseline says of one window: mean in the metric's unit, and variance in its square.

    `days`: of how many days it is made; `snapshot`: the number of the one that has said it.
    """

    mean: ExactValue
    variance: ExactValue
    days: int = 0
    snapshot: int = 0


def holds(condition: Condition, value: ExactValue, usual: Usual | None = None) -> bool | None:
    """Whether the value, in its metric's unit, fulfils the condition.

    None where a baseline is needed and says nothing to compare with.

    >>> holds(Threshold("<", Decimal("0.3")), Fraction(3, 10))
    False
    """
    if isinstance(condition, Threshold):
        return _reaches(condition, value)
    return None if usual is None else _departs(condition, value, usual)


def ends(clear: Condition, value: ExactValue, usual: Usual | None = None) -> bool | None:
    """Whether the value fulfils a rule's `clear`: as a condition, and of deviations no more.

    >>> few = AgainstBaseline("hour_of_week", sigmas=2.0)
    >>> [ends(few, value, Usual(10, 4)) for value in (5, 6, 10, 14, 15)]
    [False, True, True, True, False]
    """
    if isinstance(clear, Threshold) or clear.sigmas is None:
        return holds(clear, value, usual)
    if usual is None or usual.variance <= 0:
        return None
    return Fraction(value - usual.mean) ** 2 <= _squared(clear.sigmas, usual)


def _reaches(threshold: Threshold, value: ExactValue) -> bool:
    return _HOLDS[threshold.op](threshold.value, value)


def border(condition: Condition, value: float | None, usual: Usual | None) -> float | None:
    """What a value is compared with, in its metric's unit, to 6 decimals; None where it is nothing.

    Of deviations, which are counted either way, the border on the value's own side.
    """
    if isinstance(condition, Threshold):
        return float(condition.value)
    if usual is None:
        return None
    if condition.sigmas is not None:
        if value is None or usual.variance <= 0:
            return None
        distance = condition.sigmas * math.sqrt(usual.variance)
        return round(float(usual.mean) + math.copysign(distance, value - usual.mean), 6)
    if usual.mean <= 0:
        return None
    percent = 100 + Fraction(_change(condition).value)
    return round(float(usual.mean * percent / 100), 6)


def _departs(condition: AgainstBaseline, value: ExactValue, usual: Usual) -> bool | None:
    distance = Fraction(value - usual.mean)
    if condition.sigmas is not None:
        # Either way. Where it was always the same, no distance is many deviations.
        far = distance**2 >= _squared(condition.sigmas, usual)
        return far if usual.variance > 0 else None
    # Of nothing, and of less, there is no percentage.
    if condition.change is None or usual.mean <= 0:
        return None
    return _reaches(_change(condition), 100 * distance / usual.mean)


def _squared(sigmas: float, usual: Usual) -> Fraction:
    # For a root would be a float; the number of them as it was written, and not as it is in binary.
    return Fraction(repr(sigmas)) ** 2 * usual.variance


def _change(condition: AgainstBaseline) -> Threshold:
    op, percent = (condition.change or "").removesuffix("%").split()
    return Threshold(">=" if op == ">=" else "<=", Decimal(percent))
