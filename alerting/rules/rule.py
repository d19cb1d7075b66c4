"""Alert rules, as their files state them with the defaults filled in."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, structs, to_builtins

from tally.alerts.baseline import BaselineName
from tally.events.identity import StoreId

# The anchor is \Z, because $ would also accept a trailing newline.
RuleId = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,62}\Z")]
ChannelId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")]
RuleKind = Literal["threshold", "baseline", "silence", "stock"]
Subject = Literal["none", "item", "till", "device", "zone", "category"]
ComparisonSign = Literal[">=", ">", "<=", "<"]
RuleGrain = Literal["quarter_hour", "hour", "day", "since_opening"]
Severity = Literal["info", "warning", "critical"]
# The longest run is a day of quarter hours.
RunLength = Annotated[int, Meta(ge=1, le=96)]
ShortText = Annotated[str, Meta(max_length=200)]
NameText = Annotated[str, Meta(min_length=1, max_length=100)]
ClockText = Annotated[str, Meta(max_length=20)]
# Within the exact range of a float, so that readers in other languages get the same number.
MinimumCount = Annotated[int, Meta(ge=1, le=10**15)]
# A number of a condition as text: up to 15 digits, and 6 after the point.
DECIMAL_PATTERN = r"-?\d{1,15}(\.\d{1,6})?"
# The kinds an evaluator can judge today; rules of other kinds are read and checked, not applied.
EVALUATED_KINDS: tuple[RuleKind, ...] = ("threshold", "baseline", "silence", "stock")


class Threshold(Struct, frozen=True, forbid_unknown_fields=True):
    """A comparison of a value with a fixed one, in the metric's own unit."""

    op: ComparisonSign
    value: Decimal


class AgainstBaseline(Struct, frozen=True, forbid_unknown_fields=True):
    """A comparison of a value with a baseline, in percent or in standard deviations."""

    baseline: BaselineName
    change: Annotated[str, Meta(pattern=r"^(<=|>=) [+-]?\d{1,4} ?%\Z")] | None = None
    sigmas: Annotated[float, Meta(gt=0, le=100)] | None = None


# msgspec cannot decode an untagged union of two structs, so alerting/rules/parsing.py does.
Condition: TypeAlias = Threshold | AgainstBaseline


class FurtherCondition(Struct, frozen=True, forbid_unknown_fields=True):
    """A comparison of another metric of the same store and window with a value in its unit."""

    metric: NameText
    op: ComparisonSign
    value: Decimal

    @property
    def threshold(self) -> Threshold:
        """The threshold with which the metric's value is compared."""
        return Threshold(self.op, self.value)


class ClockHours(Struct, frozen=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    """A daily span on a store's clock: `days` as `mon-fri`, from and to as `08:00`."""

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
    """A rule: the condition of an alert, and the stores and subjects to which it applies.

    `for_` and `clear_for` are numbers of consecutive windows; `delay` and `late_after` are seconds.
    The rule's kind needs either `metric` or `family`. `clear`: None stands for the negated
    condition. alerting/rules/field_descriptions.py has the meaning and the allowed values of each
    field.
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
    for_: RunLength = 1
    clear_for: RunLength = 1
    evaluate: Literal["eager", "close"] = "close"
    on_silence: Literal["hold", "raise"] = "hold"
    delay: Annotated[int, Meta(ge=0, le=3600)] = 60
    within: (
        Literal["always", "opening_hours"]
        | Annotated[tuple[ClockHours, ...], Meta(min_length=1, max_length=100)]
    ) = "always"
    minimum: Annotated[dict[NameText, MinimumCount], Meta(max_length=20)] = {}
    unless: Annotated[tuple[RuleId, ...], Meta(max_length=100)] = ()
    severity: Severity = "warning"
    title: ShortText = ""
    owner: ShortText = ""
    channels: Annotated[tuple[ChannelId, ...], Meta(max_length=20)] = ()
    late_after: Annotated[int, Meta(ge=0, le=2_592_000)] = 900
    backfill: bool = False


# May change without a new version: they affect how an alert is delivered, not when it is raised.
COSMETIC_FIELDS = ("severity", "title", "owner", "channels", "late_after", "backfill")


class RuleVersion(Struct, frozen=True, kw_only=True):
    """A rule as it holds from an instant on.

    `effective_from`: start of a window, milliseconds since 1970 (UTC); `retired`: the rule raises
    no alerts from then on. `revision`: how many times its cosmetic fields were written; the newest
    are in `rule`.
    """

    rule: Rule
    version: int
    effective_from: int
    retired: bool = False
    revision: int = 1


def rule_to_fields(rule: Rule) -> dict[str, Any]:
    """Every field by its name in a file, as plain types; None where it has no value."""
    fields: dict[str, Any] = to_builtins(rule)
    # JSON has lists and no tuples.
    for name, value in fields.items():
        if isinstance(value, tuple):
            fields[name] = [*value]
    return fields


def version_at(chain: Sequence[RuleVersion], window_start: int) -> RuleVersion | None:
    """The version by which a window is judged; None where none is in force yet.

    In:  the versions of one rule, ascending; the window's start, milliseconds since 1970 (UTC).
    Out: the version may be a retired one, which raises no alert.
    """
    # The highest number counts, not the latest start: a broker's clock may have been set back.
    begun = (version for version in reversed(chain) if version.effective_from <= window_start)
    return next(begun, None)


def with_cosmetics(rule: Rule, other: Rule) -> Rule:
    """The rule with the COSMETIC fields of the other one."""
    return structs.replace(rule, **{name: getattr(other, name) for name in COSMETIC_FIELDS})
