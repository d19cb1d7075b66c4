"""The verdicts of many rules on the same windows: what is known of these is put in order once."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor
from operator import attrgetter

from msgspec import Struct

from tally.alerts.rule import Condition, Rule, Threshold
from tally.alerts.verdict import CLEARS, LEAVES, RAISES, WindowFacts, ruling_byte, verdict

_MILLION = 1_000_000
# More than anybody has rules.
_MOST_KNOWN = 50_000


class RankedFacts(Struct, frozen=True):
    """Different facts: first those of which a number alone decides, by that number ascending.

    `floors` and `ceils`: those numbers in millionths, rounded down and up. Nothing is lost by that:
    no condition of a file has more than 6 decimals, and a number reaches whole millionths exactly
    where its floor does, and exceeds them where its ceil does.
    """

    facts: tuple[WindowFacts, ...]
    floors: tuple[int, ...]
    ceils: tuple[int, ...]

    @classmethod
    def of(cls, facts: Iterable[WindowFacts]) -> "RankedFacts":
        """The facts in that order, each once."""
        each = dict.fromkeys(facts)
        ranked = sorted(filter(_is_number, each), key=attrgetter("value"))
        others = (one for one in each if not _is_number(one))
        values = [one.value * _MILLION for one in ranked if one.value is not None]
        floors, ceils = tuple(map(floor, values)), tuple(map(ceil, values))
        return cls((*ranked, *others), floors, ceils)

    def verdicts(self, rule: Rule) -> bytes:
        """What each of them says to the rule, a byte each: LEAVES, RAISES or CLEARS."""
        condition, clear = rule.condition, rule.clear
        if not (_is_compared(rule) and _is_ranked(clear)):
            return b"".join(ruling_byte(verdict(rule, one)) for one in self.facts)
        # Both are half lines: where each begins or ends is looked up, and not tried number by
        # number.
        found = bytearray((CLEARS if clear is None else LEAVES) * len(self.floors))
        for one, of in ((clear, CLEARS), (condition, RAISES)):
            if isinstance(one, Threshold):
                held = self._held(one)
                found[held] = of * (held.stop - held.start)
        for other in self.facts[len(self.floors) :]:
            found += ruling_byte(verdict(rule, other))
        return bytes(found)

    def raises(self, rule: Rule) -> bool:
        """Whether RAISES is among the verdicts, without a look at most of them."""
        others = self.facts
        if _is_compared(rule) and isinstance(rule.condition, Threshold):
            held = self._held(rule.condition)
            if held.start < held.stop:
                return True
            others = self.facts[len(self.floors) :]
        return any(ruling_byte(verdict(rule, one)) == RAISES for one in others)

    def _held(self, threshold: Threshold) -> slice:
        """The numbers that fulfil the condition."""
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


def _is_compared(rule: Rule) -> bool:
    """Whether a look at the numbers in millionths says where the rule raises."""
    is_compared = rule.kind == "threshold" and rule.condition is not None and not rule.and_
    return is_compared and _is_ranked(rule.condition)


def _is_ranked(condition: Condition | None) -> bool:
    """Whether a look at the numbers in millionths decides about it; also where there is none."""
    if isinstance(condition, Threshold):
        return _millionths(condition.value) is not None
    return condition is None


def _is_number(one: WindowFacts) -> bool:
    """Whether nothing but its value decides about a condition, whatever the rule."""
    is_open = one.phase == "open" or one.is_exempt or not one.is_known
    is_more = one.level is not None or not one.meets_minimum
    return not is_open and not is_more and one.value is not None


@lru_cache(maxsize=_MOST_KNOWN)
def _millionths(value: Decimal) -> int | None:
    """The number in millionths; None where it is not a whole number of them."""
    found = Fraction(value) * _MILLION
    return found.numerator if found.denominator == 1 else None
