"""Alert rules, as their files state them with the defaults filled in.

The values come from JSON, or from YAML whose scalars are all texts; pydantic checks their shape.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    WithJsonSchema,
)

from tally.alerts.baseline import BaselineName
from tally.config.plain_values import (
    AS_INTEGER,
    BY_FORM,
    FIELDS,
    LIST,
    OTHER_FIELDS,
    STRICT_FIELDS,
    WORD,
    FileStoreId,
    Flag,
    shorten_value,
)
from tally.time.opening_hours import WEEKDAYS, ClockSpan, expand_weekdays, parse_clock_span

# The most entries of a list, and of the list of stores.
MAX_ENTRIES, MAX_STORES = 100, 10_000
# A number of a condition as text: up to 15 digits, and 6 after the point. Python accepts more as a
# number (1_000, nan, 1e400), which in a hand-written file is a mistake.
DECIMAL_PATTERN = r"-?[0-9]{1,15}(\.[0-9]{1,6})?"
_DECIMAL = re.compile(DECIMAL_PATTERN + r"\Z")
_DECIMAL_LIMIT = 10**15
_CHANGE_PATTERN = r"(<=|>=) ?([+-]?[0-9]{1,4}) ?%"
_CHANGE = re.compile(_CHANGE_PATTERN + r"\Z")
# Control characters, lone surrogates and line separators; and signs that reverse text direction.
_INVISIBLE_CATEGORIES = ("Cc", "Cs", "Zl", "Zp")
_DIRECTION_SIGNS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def _check_visible(text: str) -> str:
    for sign in text:
        if sign in _DIRECTION_SIGNS or unicodedata.category(sign) in _INVISIBLE_CATEGORIES:
            raise ValueError(f"holds the unseen character U+{ord(sign):04X}; take it out")
    return text


def check_unique(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names. Raises ValueError for one that stands there twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{name} stands there twice; name each once")
        seen.add(name)
    return names


def _read_decimal(value: object) -> Decimal:
    """A number as written; a float becomes the shortest decimal that stands for it."""
    if isinstance(value, Decimal) or (type(value) is int and abs(value) < _DECIMAL_LIMIT):
        return Decimal(value)
    text = repr(value) if isinstance(value, float) else value
    if isinstance(text, str) and _DECIMAL.match(text):
        return Decimal(text)
    raise ValueError(
        f"{shorten_value(value)} is no number of up to 15 digits, and 6 after the point,"
        " e.g. 6 or 0.25"
    )


def _read_change(value: object) -> str:
    matched = _CHANGE.match(value) if isinstance(value, str) else None
    if matched is None:
        raise ValueError(f"{shorten_value(value)} is no change in percent, e.g. `<= -30 %`")
    # One spelling, so that the same change written differently is the same rule.
    return f"{matched[1]} {int(matched[2])} %"


def _read_sigmas(value: object) -> float:
    number = float(_read_decimal(value))
    if not 0 < number <= 100:
        raise ValueError(f"{shorten_value(value)} is no number above 0, at most 100")
    return number


# The longest run is a day of quarter hours.
RunLength = Annotated[int, Field(strict=True, ge=1, le=96), AS_INTEGER]
ShortText = Annotated[str, Field(max_length=200), AfterValidator(_check_visible)]
NameText = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_check_visible)]
ClockText = Annotated[str, Field(max_length=20)]
# Within the exact range of a float, so that readers in other languages get the same number.
MinimumCount = Annotated[int, Field(strict=True, ge=1, le=10**15), AS_INTEGER]
ConditionValue = Annotated[
    Decimal,
    BeforeValidator(_read_decimal),
    # A number as people write it, or a string as a record has it.
    WithJsonSchema({"type": ["number", "string"], "pattern": f"^{DECIMAL_PATTERN}$"}),
]
ChangeText = Annotated[str, Field(pattern=f"^{_CHANGE_PATTERN}$"), BeforeValidator(_read_change)]
Deviations = Annotated[float, Field(gt=0, le=100), BeforeValidator(_read_sigmas)]


def _condition_tag(value: object) -> str:
    """The form of a condition; the field `baseline` alone distinguishes the two."""
    if isinstance(value, Mapping):
        return OTHER_FIELDS if "baseline" in value else FIELDS
    return OTHER_FIELDS if isinstance(value, AgainstBaseline) else FIELDS


# msgspec, which reads the records of deliveries, takes Meta; pydantic takes Field. The anchor is \Z
# there, because $ would also accept a trailing newline.
_RULE_ID, _CHANNEL_ID = r"[a-z][a-z0-9-]{0,62}", r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
RuleId = Annotated[str, Meta(pattern=rf"^{_RULE_ID}\Z"), Field(pattern=f"^{_RULE_ID}$")]
ChannelId = Annotated[str, Meta(pattern=rf"^{_CHANNEL_ID}\Z"), Field(pattern=f"^{_CHANNEL_ID}$")]
RuleKind = Literal["threshold", "baseline", "silence", "stock"]
Subject = Literal["none", "item", "till", "device", "zone", "category"]
ComparisonSign = Literal[">=", ">", "<=", "<"]
RuleGrain = Literal["quarter_hour", "hour", "day", "since_opening"]
Severity = Literal["info", "warning", "critical"]
# The kinds an evaluator can evaluate today; rules of other kinds are read and checked, not applied.
EVALUATED_KINDS: tuple[RuleKind, ...] = ("threshold", "baseline", "silence", "stock")


@STRICT_FIELDS
@dataclass(frozen=True)
class Threshold:
    """A comparison of a value with a fixed one, in the metric's own unit."""

    op: ComparisonSign
    value: ConditionValue


@STRICT_FIELDS
@dataclass(frozen=True)
class AgainstBaseline:
    """A comparison of a value with a baseline, in percent or in standard deviations."""

    baseline: BaselineName
    change: ChangeText | None = None
    sigmas: Deviations | None = None

    @property
    def change_threshold(self) -> Threshold:
        """The change as a threshold in percent of the baseline.

        >>> AgainstBaseline("hour_of_week", "<= -30 %").change_threshold
        Threshold(op='<=', value=Decimal('-30'))
        """
        op, percent = (self.change or "").removesuffix("%").split()
        return Threshold(">=" if op == ">=" else "<=", Decimal(percent))


def _check_one_number(condition: AgainstBaseline) -> AgainstBaseline:
    if (condition.change is None) == (condition.sigmas is None):
        raise ValueError("either `change` or `sigmas` is wanted, and not both")
    return condition


Condition: TypeAlias = Threshold | AgainstBaseline
_FileCondition = Annotated[
    Annotated[Threshold, Tag(FIELDS)]
    | Annotated[AgainstBaseline, AfterValidator(_check_one_number), Tag(OTHER_FIELDS)],
    Discriminator(_condition_tag),
]


@STRICT_FIELDS
@dataclass(frozen=True)
class FurtherCondition:
    """A comparison of another metric of the same store and window with a value in its unit."""

    metric: NameText
    op: ComparisonSign
    value: ConditionValue

    @property
    def threshold(self) -> Threshold:
        """The threshold with which the metric's value is compared."""
        return Threshold(self.op, self.value)


@STRICT_FIELDS
@dataclass(frozen=True)
class ClockHours:
    """A daily span on a store's clock: `days` as `mon-fri`, from and to as `08:00`."""

    days: ClockText
    from_: Annotated[ClockText, Field(alias="from")]
    to: ClockText

    @property
    def weekdays(self) -> tuple[int, ...]:
        """The weekdays on which the span begins, in days since Monday. Raises ValueError.

        >>> ClockHours("sat-mon", "22:00", "02:00").weekdays
        (5, 6, 0)
        """
        # A stores file may name holidays too, but a rule has no calendar of holidays.
        names = [name for name in expand_weekdays(self.days) if name in WEEKDAYS]
        if not names:
            raise ValueError(f"{self.days!r}: holidays are days of the week here, e.g. mon-fri")
        return tuple(map(WEEKDAYS.index, names))

    @property
    def span(self) -> ClockSpan:
        """The start and end in minutes since midnight; an end past midnight is above 1440.

        Raises ValueError.

        >>> ClockHours("sat-mon", "22:00", "02:00").span
        ClockSpan(opens=1320, closes=1560)
        """
        return parse_clock_span(self.days, f"{self.from_}-{self.to}")


def _check_hours(hours: ClockHours) -> ClockHours:
    # Both raise ValueError for a text that they cannot read.
    assert hours.weekdays and hours.span
    return hours


@STRICT_FIELDS
@dataclass(frozen=True)
class InGroup:
    """All stores of one group of the stores file."""

    region: NameText


@STRICT_FIELDS
@dataclass(frozen=True, kw_only=True)
class Rule:
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
    stores: Annotated[
        Annotated[Literal["all"], Tag(WORD)]
        | Annotated[
            tuple[FileStoreId, ...],
            # Many wrong ids are one problem.
            Field(min_length=1, max_length=MAX_STORES, fail_fast=True),
            AfterValidator(check_unique),
            Tag(LIST),
        ]
        | Annotated[InGroup, Tag(FIELDS)],
        BY_FORM,
    ] = "all"
    subject: Subject = "none"
    grain: RuleGrain = "quarter_hour"
    condition: _FileCondition | None = None
    clear: _FileCondition | None = None
    and_: Annotated[tuple[FurtherCondition, ...], Field(alias="and", max_length=10)] = ()
    for_: Annotated[RunLength, Field(alias="for")] = 1
    clear_for: RunLength = 1
    evaluate: Literal["eager", "close"] = "close"
    on_silence: Literal["hold", "raise"] = "hold"
    delay: Annotated[int, Field(strict=True, ge=0, le=3600), AS_INTEGER] = 60
    within: Annotated[
        Annotated[Literal["always", "opening_hours"], Tag(WORD)]
        | Annotated[
            tuple[Annotated[ClockHours, AfterValidator(_check_hours)], ...],
            Field(min_length=1, max_length=MAX_ENTRIES),
            Tag(LIST),
        ],
        BY_FORM,
    ] = "always"
    minimum: Annotated[
        dict[NameText, MinimumCount], Field(max_length=20, json_schema_extra={"default": {}})
    ] = field(default_factory=dict)
    unless: Annotated[
        tuple[RuleId, ...], Field(max_length=MAX_ENTRIES), AfterValidator(check_unique)
    ] = ()
    severity: Severity = "warning"
    title: ShortText = ""
    owner: ShortText = ""
    channels: Annotated[
        tuple[ChannelId, ...], Field(max_length=20), AfterValidator(check_unique)
    ] = ()
    late_after: Annotated[int, Field(strict=True, ge=0, le=2_592_000), AS_INTEGER] = 900
    backfill: Flag = False


RULE_ADAPTER = TypeAdapter(Rule)
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
    fields: dict[str, Any] = RULE_ADAPTER.dump_python(rule, mode="json", by_alias=True)
    return fields


def version_at(chain: Sequence[RuleVersion], window_start: int) -> RuleVersion | None:
    """The version by which a window is evaluated; None where none is in force yet.

    In:  the versions of one rule, ascending; the window's start, milliseconds since 1970 (UTC).
    Out: the version may be a retired one, which raises no alert.
    """
    # The highest number counts, not the latest start: a broker's clock may have been set back.
    begun = (version for version in reversed(chain) if version.effective_from <= window_start)
    return next(begun, None)


def with_cosmetics(rule: Rule, other: Rule) -> Rule:
    """The rule with the COSMETIC_FIELDS of the other one."""
    return replace(rule, **{name: getattr(other, name) for name in COSMETIC_FIELDS})
