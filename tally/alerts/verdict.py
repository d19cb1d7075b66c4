"""What one window says to a rule: that it raises, that it clears, or nothing.

No data is never recovery: what is not known, and what has not come yet, leaves things as they are.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from tally.alerts.comparison import ExactValue, Usual, ends, holds
from tally.alerts.rule import FurtherCondition, Rule

# +1 raises, -1 clears, 0 leaves things as they are.
Ruling: TypeAlias = Literal[-1, 0, 1]
# The same where many are kept: a byte each.
LEAVES, RAISES, CLEARS = b"\0", b"\1", b"\2"
# Of windows that end an episode whatever their numbers are: nobody judges the store any more; a
# person has resolved the alert, and it is raised again after a window has cleared.
ENDS, RESOLVES = b"\3", b"\4"
_RULINGS: tuple[Ruling, ...] = (0, 1, -1, 0, 0)
_BYTES = (LEAVES, RAISES, CLEARS)
# Closed by a tick; covered by a generation, which is `complete: true`.
WindowPhase: TypeAlias = Literal["open", "closed", "covered"]


class FurtherFacts(Struct, frozen=True):
    """Of the metric of one further condition, its value in the window and whether it is known.

    `value`: in the metric's unit; None where nothing has come. `is_known`: as of WindowFacts.
    """

    value: ExactValue | None
    is_known: bool = True


class WindowFacts(Struct, frozen=True, kw_only=True):
    """What is known of one window at the moment of judging it.

    `value`: in the unit of the rule's metric, of a silence rule the events, of a stock rule the
    least; None where nothing has come. `level`: of a stock rule what there is at the end, by which
    it clears. `is_known`: not where a side is unreachable, a value `missing`, a sensor below its
    coverage, or the day's serving epoch above the tick's. `meets_minimum`: of the rule's `minimum`.
    `is_exempt`: the window begins outside of `within`, before a silence rule may judge, or while
    the alert of a rule in `unless` is open. `usual`: of a baseline rule. `further`: of each
    condition in `and`, in their order; the phase is that of all metrics together.
    """

    phase: WindowPhase
    value: ExactValue | None
    is_known: bool = True
    meets_minimum: bool = True
    is_exempt: bool = False
    usual: Usual | None = None
    level: ExactValue | None = None
    further: tuple[FurtherFacts, ...] = ()


def verdict(rule: Rule, facts: WindowFacts) -> Ruling:
    """What the window says to the rule that is in force in it.

    | window  | condition | between | clear | nothing has come                | not known |
    |---------|-----------|---------|-------|---------------------------------|-----------|
    | open    | +1 if eager, else 0 | 0 | 0 | 0                               | 0         |
    | closed  | +1        | 0       | -1    | +1 with `on_silence: raise`     | 0         |
    | covered | +1        | 0       | -1    | the same, else it is a true zero | 0         |

    A silence rule raises where nothing has come to a window that is not open, and else clears.
    A window that is exempt says nothing, and breaks a run of windows as any other 0 does.

    With conditions in `and` it raises where all hold, clears where one does not (or by `clear`),
    and says nothing where one is not known and none is false, or below `minimum`.
    """
    own = _own_verdict(rule, facts)
    # Below the minimum silence alone counts.
    if not rule.and_ or facts.is_exempt or (own == 0 and not facts.meets_minimum):
        return own
    pairs = zip(rule.and_, facts.further, strict=True)
    each = [_further_holds(rule, condition, of, facts) for condition, of in pairs]
    if False in each:
        return 0 if facts.phase == "open" else -1
    return 0 if own == 1 and None in each else own


def _own_verdict(rule: Rule, facts: WindowFacts) -> Ruling:
    """The verdict without the conditions in `and`."""
    if facts.is_exempt or not facts.is_known:
        return 0
    if facts.phase == "open":
        # One that has just begun is not low yet, and not silent.
        is_early = rule.evaluate == "eager" and rule.kind != "silence"
        return 1 if is_early and _compared(rule, facts.value, facts) == 1 else 0
    if rule.kind == "silence":
        return -1 if facts.value else 1
    if facts.value is not None:
        return _compared(rule, facts.value, facts)
    if rule.on_silence == "raise":
        return 1
    # A level that nobody has counted is not known: no generation makes it a zero.
    is_zero = facts.phase == "covered" and rule.kind != "stock"
    return _compared(rule, 0, facts) if is_zero else 0


def ruling_byte(ruling: Ruling) -> bytes:
    """The verdict as that byte."""
    return _BYTES[ruling]


def ruling_of(byte: int) -> Ruling:
    """The verdict that is kept as that byte.

    >>> [ruling_of(one) for one in LEAVES + RAISES + CLEARS]
    [0, 1, -1]
    """
    return _RULINGS[byte]


def _further_holds(
    rule: Rule, condition: FurtherCondition, of: FurtherFacts, facts: WindowFacts
) -> bool | None:
    """Whether a condition in `and` holds; None where that is not known."""
    if not of.is_known:
        return None
    if of.value is not None:
        return holds(condition.threshold, of.value)
    if facts.phase != "open" and rule.on_silence == "raise":
        return True
    return holds(condition.threshold, 0) if facts.phase == "covered" else None


def _compared(rule: Rule, value: ExactValue | None, facts: WindowFacts) -> Ruling:
    if value is None or rule.condition is None or not facts.meets_minimum:
        return 0
    raises = holds(rule.condition, value, facts.usual)
    if raises is None or raises:
        return 1 if raises else 0
    # Without a `clear` of its own it is the condition's negation.
    at_end = value if facts.level is None else facts.level
    clears = True if rule.clear is None else ends(rule.clear, at_end, facts.usual)
    return -1 if clears else 0
