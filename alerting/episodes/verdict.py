"""The verdict of a rule on one window: it raises, it clears, or it leaves things as they are.

Missing data is never a recovery: values that are unknown, or have not arrived yet, change nothing.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from alerting.rules.conditions import matches_clear, matches_condition
from alerting.rules.rule import FurtherCondition, Rule
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
# `closed` by a tick; `covered` by a generation, and nothing newer was read instead.
WindowPhase: TypeAlias = Literal["open", "closed", "covered"]


class FurtherFacts(Struct, frozen=True):
    """The value of a further condition's metric in the window, and whether it is known.

    `value`: in the metric's unit; None where nothing has come. `is_known`: as in WindowFacts.
    """

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
