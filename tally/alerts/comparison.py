"""Whether a value fulfils a rule's condition, exactly: no float comes between the two."""

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
    """What a baseline says of one window: mean and standard deviation, in the metric's unit."""

    mean: ExactValue
    deviation: ExactValue


def holds(condition: Condition, value: ExactValue, usual: Usual | None = None) -> bool | None:
    """Whether the value, in its metric's unit, fulfils the condition.

    None where a baseline is needed and says nothing to compare with.

    >>> holds(Threshold("<", Decimal("0.3")), Fraction(3, 10))
    False
    """
    if isinstance(condition, Threshold):
        return _reaches(condition, value)
    return None if usual is None else _departs(condition, value, usual)


def _reaches(threshold: Threshold, value: ExactValue) -> bool:
    return _HOLDS[threshold.op](threshold.value, value)


def _departs(condition: AgainstBaseline, value: ExactValue, usual: Usual) -> bool | None:
    distance = Fraction(value - usual.mean)
    if condition.sigmas is not None:
        # Either way. Where it was always the same, no distance is many deviations.
        is_told = usual.deviation > 0
        return abs(distance) >= Fraction(condition.sigmas) * usual.deviation if is_told else None
    # Of nothing, and of less, there is no percentage.
    if condition.change is None or usual.mean <= 0:
        return None
    op, percent = condition.change.removesuffix("%").split()
    threshold = Threshold(">=" if op == ">=" else "<=", Decimal(percent))
    return _reaches(threshold, 100 * distance / usual.mean)
