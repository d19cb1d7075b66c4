"""The verdict of a rule on one window: it raises, it clears, or it leaves things as they are.

Missing data is never a recovery: values that are unknown, or have not arrived yet, change nothing.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor
from operator import attrgetter
from typing import Literal, TypeAlias

from msgspec import Struct

from alerting.rules.conditions import matches_clear, matches_condition
from alerting.rules.rule import Condition, FurtherCondition, Rule, Threshold
from tally.alerts.baseline import ExactValue, WindowBaseline

# +1 raises, -1 clears, 0 leaves things as they are.
Verdict: TypeAlias = Literal[-1, 0, 1]
# The same verdicts where many are stored, one byte each.
LEAVES, RAISES, CLEARS = b"\0", b"\1", b"\2"
# Verdicts that end an episode regardless of the window's value: ENDS, where the store is no longer
# evaluated; RESOLVES, where a person resolved the alert, which can be raised again after a window
# has cleared.
ENDS, RESOLVES = b"\3", b"\4"
_VERDICTS: tuple[Verdict, ...] = (0, 1, -1, 0, 0)
_BYTES = (LEAVES, RAISES, CLEARS)
_MILLION = 1_000_000
# `closed` by a tick; `covered` by a generation, and nothing newer was read instead.
WindowPhase: TypeAlias = Literal["open", "closed", "covered"]


class FurtherFacts(Struct, frozen=True):
    """The value of a further condition's metric in its unit; the fields are as in WindowFacts."""

    value: ExactValue | None
    is_known: bool = True


class WindowFacts(Struct, frozen=True, kw_only=True):
    """The facts that are known about one window when it is evaluated.

    `value`: in the unit of the rule's metric; the number of events for a silence rule, the minimum
    for a stock rule; None where nothing has come. `level`: for a stock rule, the stock at the end
    of the window, by which it clears. `is_known`: false where a layer is unreachable, a value
    `missing`, a sensor below its coverage, or the day's serving epoch above the tick's.
    `meets_minimum`: whether the window meets the rule's `minimum`. `is_exempt`: the window begins
    outside of `within`, before a silence rule may evaluate, or while the alert of a rule in
    `unless` is open. `baseline`: the baseline of a baseline rule. `further`: the facts of each
    condition in `and`, in their order; the phase is that of all metrics together.
    """

    phase: WindowPhase
    value: ExactValue | None
    is_known: bool = True
    meets_minimum: bool = True
    is_exempt: bool = False
    baseline: WindowBaseline | None = None
    level: ExactValue | None = None
    further: tuple[FurtherFacts, ...] = ()


def evaluate_window(rule: Rule, facts: WindowFacts) -> Verdict:
    """The verdict on a window by the rule that is in force in it.

    | window  | condition | between | clear | nothing has come                | not known |
    |---------|-----------|---------|-------|---------------------------------|-----------|
    | open    | +1 if eager, else 0 | 0 | 0 | 0                               | 0         |
    | closed  | +1        | 0       | -1    | +1 with `on_silence: raise`     | 0         |
    | covered | +1        | 0       | -1    | the same, else it is a true zero | 0         |

    A silence rule raises on a window without events that is not open, and clears on any other one.
    An exempt window has the verdict 0, which breaks a run of windows like any other 0.

    With conditions in `and` the rule raises where all hold, and clears where one does not (or by
    `clear`). The verdict is 0 where one is not known and none is false, or below `minimum`.
    """
    verdict = _evaluate_condition(rule, facts)
    # Below the minimum only silence counts.
    if not rule.and_ or facts.is_exempt or (verdict == 0 and not facts.meets_minimum):
        return verdict
    pairs = zip(rule.and_, facts.further, strict=True)
    results = [_matches_further(rule, condition, further, facts) for condition, further in pairs]
    if False in results:
        return 0 if facts.phase == "open" else -1
    return 0 if verdict == 1 and None in results else verdict


def _evaluate_condition(rule: Rule, facts: WindowFacts) -> Verdict:
    """The verdict without the conditions in `and`."""
    if facts.is_exempt or not facts.is_known:
        return 0
    if facts.phase == "open":
        # A window that has just begun is neither low nor silent yet.
        is_early = rule.evaluate == "eager" and rule.kind != "silence"
        return 1 if is_early and _compare_value(rule, facts.value, facts) == 1 else 0
    if rule.kind == "silence":
        return -1 if facts.value else 1
    if facts.value is not None:
        return _compare_value(rule, facts.value, facts)
    if rule.on_silence == "raise":
        return 1
    # An uncounted level is unknown; even a generation does not make it zero.
    is_zero = facts.phase == "covered" and rule.kind != "stock"
    return _compare_value(rule, 0, facts) if is_zero else 0


def encode_verdict(ruling: Verdict) -> bytes:
    """The byte in which a verdict is stored."""
    return _BYTES[ruling]


def decode_verdict(byte: int) -> Verdict:
    """The verdict that is stored in a byte.

    >>> [decode_verdict(one) for one in LEAVES + RAISES + CLEARS]
    [0, 1, -1]
    """
    return _VERDICTS[byte]


def _matches_further(
    rule: Rule, condition: FurtherCondition, further: FurtherFacts, facts: WindowFacts
) -> bool | None:
    """Whether a condition in `and` holds; None where that is not known."""
    if not further.is_known:
        return None
    if further.value is not None:
        return matches_condition(condition.threshold, further.value)
    if facts.phase != "open" and rule.on_silence == "raise":
        return True
    return matches_condition(condition.threshold, 0) if facts.phase == "covered" else None


def _compare_value(rule: Rule, value: ExactValue | None, facts: WindowFacts) -> Verdict:
    if value is None or rule.condition is None or not facts.meets_minimum:
        return 0
    raises = matches_condition(rule.condition, value, facts.baseline)
    if raises is None or raises:
        return 1 if raises else 0
    # Without `clear`, a rule clears where its condition does not hold.
    at_end = value if facts.level is None else facts.level
    clears = True if rule.clear is None else matches_clear(rule.clear, at_end, facts.baseline)
    return -1 if clears else 0


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
        return any(evaluate_window(rule, window) == 1 for window in others)

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


# More values than the rules of any installation have.
@lru_cache(maxsize=50_000)
def _millionths(value: Decimal) -> int | None:
    """The value in millionths; None where this is not an integer."""
    millionths = Fraction(value) * _MILLION
    return millionths.numerator if millionths.denominator == 1 else None
