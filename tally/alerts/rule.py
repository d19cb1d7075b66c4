"""A rule of alerts, as its file says it with the defaults filled in."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, structs, to_builtins

# \Z, not $: by that a line's end would pass.
RuleId = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,62}\Z")]
StoreId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{1,64}\Z")]
ChannelId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")]
RuleKind = Literal["threshold", "baseline", "silence", "stock"]
Subject = Literal["none", "item", "till", "device", "zone", "category"]
ComparisonSign = Literal[">=", ">", "<=", "<"]
RuleGrain = Literal["quarter_hour", "hour", "day", "since_opening"]
BaselineName = Literal["same_weekday_4w", "hour_of_week"]
Severity = Literal["info", "warning", "critical"]
# A day of quarter hours is the longest that anybody waits.
Runs = Annotated[int, Meta(ge=1, le=96)]
ShortText = Annotated[str, Meta(max_length=200)]
NameText = Annotated[str, Meta(min_length=1, max_length=100)]
ClockText = Annotated[str, Meta(max_length=20)]
# Below what a float holds exactly: whoever reads it in another language has the same number.
Least = Annotated[int, Meta(ge=1, le=10**15)]
# A number of a condition as text: up to 15 digits, and 6 after the point.
DECIMAL = r"-?\d{1,15}(\.\d{1,6})?"
# What an evaluator can judge today. A rule of another kind is read and checked, and not applied.
JUDGED: tuple[RuleKind, ...] = ("threshold", "baseline", "silence", "stock")


class Threshold(Struct, frozen=True, forbid_unknown_fields=True):
    """A value against a fixed one, in the metric's own unit."""

    op: ComparisonSign
    value: Decimal


class AgainstBaseline(Struct, frozen=True, forbid_unknown_fields=True):
    """A value against what is usual: by so many percent, or by so many standard deviations."""

    baseline: BaselineName
    change: Annotated[str, Meta(pattern=r"^(<=|>=) [+-]?\d{1,4} ?%\Z")] | None = None
    sigmas: Annotated[float, Meta(gt=0, le=100)] | None = None


# msgspec reads no union of two shapes without a tag: tally/alerts/rule_shape.py does.
Condition: TypeAlias = Threshold | AgainstBaseline


class FurtherCondition(Struct, frozen=True, forbid_unknown_fields=True):
    """Another metric of the same store and window against a fixed value, in that metric's unit."""

    metric: NameText
    op: ComparisonSign
    value: Decimal

    @property
    def threshold(self) -> Threshold:
        """What the metric's value is compared with."""
        return Threshold(self.op, self.value)


class ClockHours(Struct, frozen=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    """Spans of a store's clock: `days` as `mon-fri`, from and to as `08:00`."""

    days: ClockText
    from_: ClockText
    to: ClockText


class InGroup(Struct, frozen=True, forbid_unknown_fields=True):
    """All stores of one group of the stores file."""

    region: NameText


class Rule(
    Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    rename={"for_": "for", "and_": "and"},
):
    """What calls for an alert, of which stores and subjects.

    `for_` and `clear_for` are windows in a row; `delay` and `late_after` seconds; `metric` and
    `family`: the one of them that the kind needs; `clear`: None stands for the negated condition.
    Meaning of each field, and what may stand there: tally/alerts/rule_words.py.
    """

    rule_id: RuleId
    kind: RuleKind = "threshold"
    metric: NameText | None = None
    family: NameText | None = None
    stores: (
        Literal["all"]
        | Annotated[tuple[StoreId, ...], Meta(min_length=1, max_length=10_000)]
        | InGroup
    ) = "all"
    subject: Subject = "none"
    grain: RuleGrain = "quarter_hour"
    condition: Condition | None = None
    clear: Condition | None = None
    and_: Annotated[tuple[FurtherCondition, ...], Meta(max_length=10)] = ()
    for_: Runs = 1
    clear_for: Runs = 1
    evaluate: Literal["eager", "close"] = "close"
    on_silence: Literal["hold", "raise"] = "hold"
    delay: Annotated[int, Meta(ge=0, le=3600)] = 60
    within: (
        Literal["always", "opening_hours"]
        | Annotated[tuple[ClockHours, ...], Meta(min_length=1, max_length=100)]
    ) = "always"
    minimum: Annotated[dict[NameText, Least], Meta(max_length=20)] = {}
    unless: Annotated[tuple[RuleId, ...], Meta(max_length=100)] = ()
    severity: Severity = "warning"
    title: ShortText = ""
    owner: ShortText = ""
    channels: Annotated[tuple[ChannelId, ...], Meta(max_length=20)] = ()
    late_after: Annotated[int, Meta(ge=0, le=2_592_000)] = 900
    backfill: bool = False


# What may change without a new version: it says how an alert is told, and not when.
COSMETIC = ("severity", "title", "owner", "channels", "late_after", "backfill")


class RuleVersion(Struct, frozen=True, kw_only=True):
    """A rule as it holds from an instant on.

    `effective_from`: start of a window, milliseconds since 1970 (UTC); `retired`: nothing is called
    for from then on. `revision`: how often its cosmetic fields were told; the newest are in `rule`.
    """

    rule: Rule
    version: int
    effective_from: int
    retired: bool = False
    revision: int = 1


def told_rule(rule: Rule) -> dict[str, Any]:
    """Every field by the name that it has in a file, of plain types; None where it has no value."""
    told: dict[str, Any] = to_builtins(rule)
    # As JSON has them: a tuple is a list there.
    for name, one in told.items():
        if isinstance(one, tuple):
            told[name] = [*one]
    return told


def version_at(chain: Sequence[RuleVersion], window_start: int) -> RuleVersion | None:
    """The version that a window is judged by; None where none is in force yet.

    In:  the versions of one rule, ascending; the window's start, milliseconds since 1970 (UTC).
    Out: perhaps one that is retired: then nothing is called for.
    """
    # The highest, not the last that began: a broker's clock may have been set back between two.
    begun = (one for one in reversed(chain) if one.effective_from <= window_start)
    return next(begun, None)


def with_cosmetics(rule: Rule, other: Rule) -> Rule:
    """The rule as it was, told as the other is: its fields of COSMETIC."""
    return structs.replace(rule, **{name: getattr(other, name) for name in COSMETIC})
