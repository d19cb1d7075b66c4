"""The verdicts of many rules on the same windows, whose facts are sorted only once."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor
from operator import attrgetter

from msgspec import Struct

from alerting.episodes.verdict import (
    CLEARS,
    LEAVES,
    RAISES,
    WindowFacts,
    encode_verdict,
    evaluate_window,
)
from alerting.rules.rule import Condition, Rule, Threshold

_MILLION = 1_000_000
# More than the number of rules of any installation.
_CACHE_SIZE = 50_000


class SortedFacts(Struct, frozen=True):
    """Distinct facts: first those that a number alone decides, by that number ascending.

    `floors` and `ceils`: those numbers in millionths, rounded down and up. The rounding loses
    nothing: no condition of a file has more than 6 decimals, and a number reaches whole millionths
    exactly where its floor does, and exceeds them where its ceil does.
    """

    facts: tuple[WindowFacts, ...]
    floors: tuple[int, ...]
    ceils: tuple[int, ...]

    @classmethod
    def from_facts(cls, facts: Iterable[WindowFacts]) -> "SortedFacts":
        """The distinct facts in that order."""
        distinct = dict.fromkeys(facts)
        ranked = sorted(filter(_is_number, distinct), key=attrgetter("value"))
        others = (window for window in distinct if not _is_number(window))
        values = [window.value * _MILLION for window in ranked if window.value is not None]
        floors, ceils = tuple(map(floor, values)), tuple(map(ceil, values))
        return cls((*ranked, *others), floors, ceils)

    def verdicts(self, rule: Rule) -> bytes:
        """The verdict of the rule on each of them, one byte each: LEAVES, RAISES or CLEARS."""
        condition, clear = rule.condition, rule.clear
        if not (_has_numeric_condition(rule) and _is_in_millionths(clear)):
            return b"".join(encode_verdict(evaluate_window(rule, window)) for window in self.facts)
        # Both conditions are half lines, so their borders are found by bisection instead of a test
        # of each number.
        found = bytearray((CLEARS if clear is None else LEAVES) * len(self.floors))
        for half_line, byte in ((clear, CLEARS), (condition, RAISES)):
            if isinstance(half_line, Threshold):
                matches = self._matching_slice(half_line)
                found[matches] = byte * (matches.stop - matches.start)
        for other in self.facts[len(self.floors) :]:
            found += encode_verdict(evaluate_window(rule, other))
        return bytes(found)

    def raises(self, rule: Rule) -> bool:
        """Whether RAISES is among the verdicts; most facts are not evaluated for this."""
        others = self.facts
        if _has_numeric_condition(rule) and isinstance(rule.condition, Threshold):
            matches = self._matching_slice(rule.condition)
            if matches.start < matches.stop:
                return True
            others = self.facts[len(self.floors) :]
        return any(encode_verdict(evaluate_window(rule, window)) == RAISES for window in others)

    def _matching_slice(self, threshold: Threshold) -> slice:
        """The slice of the numbers that fulfil the condition."""
        border = _millionths(threshold.value)
        assert border is not None
        match threshold.op:
            case ">=":
                return slice(bisect_left(self.floors, border), len(self.floors))
            case ">":
                return slice(bisect_right(self.ceils, border), len(self.ceils))
            case "<=":
                return slice(0, bisect_right(self.ceils, border))
            case "<":
                return slice(0, bisect_left(self.floors, border))


def _has_numeric_condition(rule: Rule) -> bool:
    """Whether the numbers in millionths alone decide where the rule raises."""
    is_simple = rule.kind == "threshold" and rule.condition is not None and not rule.and_
    return is_simple and _is_in_millionths(rule.condition)


def _is_in_millionths(condition: Condition | None) -> bool:
    """Whether the numbers in millionths alone decide a condition; true for None as well."""
    if isinstance(condition, Threshold):
        return _millionths(condition.value) is not None
    return condition is None


def _is_number(window: WindowFacts) -> bool:
    """Whether only the window's value decides a condition, for every rule."""
    is_open = window.phase == "open" or window.is_exempt or not window.is_known
    is_more = window.level is not None or not window.meets_minimum
    return not is_open and not is_more and window.value is not None


@lru_cache(maxsize=_CACHE_SIZE)
def _millionths(value: Decimal) -> int | None:
    """The value in millionths; None where this is not an integer."""
    millionths = Fraction(value) * _MILLION
    return millionths.numerator if millionths.denominator == 1 else None
