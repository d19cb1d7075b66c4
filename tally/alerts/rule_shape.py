"""A rule from plain values, field by field: every field that does not fit is told at once.

The values are those of YAML whose scalars are all texts, or of JSON.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from reprlib import Repr
from typing import Any, NoReturn, get_args

import msgspec
from msgspec import structs

from tally.alerts.clock_hours import span_of, weekdays_of
from tally.alerts.rule import (
    DECIMAL,
    AgainstBaseline,
    ComparisonSign,
    Condition,
    FurtherCondition,
    InGroup,
    NameText,
    Rule,
    Threshold,
)
from tally.alerts.rule_words import FIELD_WORDS, NOT_TAKEN
from tally.errors import BadRule

_FIELDS = {one.encode_name: one for one in structs.fields(Rule)}
_PartReaders = Mapping[str, Callable[[object], Any]]
_ConditionFields = Mapping[Any, Any]
_CONDITIONS = ("condition", "clear")
_EITHER = ("change", "sigmas")
_MOST_FURTHER = 10
# Longer ones overflow what msgspec takes for an integer.
_WHOLE = re.compile(r"-?\d{1,18}\Z", re.ASCII)
# What Python would take for a number besides (1_000, nan, 1e400) is a slip in a file for people.
_DECIMAL = re.compile(DECIMAL + r"\Z", re.ASCII)
_MOST = 10**15
# A file of nothing but mistakes is not a page for each.
_MOST_PROBLEMS = 50
_CHANGE = re.compile(r"(<=|>=) ?([+-]?\d{1,4}) ?%\Z", re.ASCII)
_FLAGS = {"true": True, "false": False}
# Control characters, halves of a pair, ends of lines; and what turns the order of letters around.
_UNSEEN = ("Cc", "Cs", "Zl", "Zp")
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60
# Deeper and longer values are cut, whatever was sent.
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict = 2, 3, 3


def rule_of(told: object) -> Rule:
    """The rule that these values are, its defaults filled in.

    What they mean is not looked at. Raises BadRule with one line for each field that does not fit,
    in the order of the file.
    """
    if not isinstance(told, Mapping):
        raise BadRule([f"{shown(told)} is no rule; fields are wanted, e.g. `rule_id: no-visitors`"])
    problems: list[str] = []
    values: dict[str, Any] = {}
    for name, value in told.items():
        if name not in _FIELDS:
            problems.append(_unknown(name))
            continue
        try:
            values[_FIELDS[name].name] = _read(name, value)
        except BadRule as error:
            problems += error.problems
    # Last, behind what was written.
    if "rule_id" not in told:
        problems.append(f"rule_id: is missing; wanted: {FIELD_WORDS['rule_id'].wanted}")
    if problems:
        left = len(problems) - _MOST_PROBLEMS
        raise BadRule(problems[:_MOST_PROBLEMS] + [f"and {left} more"] * (left > 0))
    # Of silence nothing else can be made.
    if values.get("kind") == "silence":
        values.setdefault("on_silence", "raise")
    if values.get("kind") == "stock":
        # How much there is now is what it is, and there is no sum of articles that is sold out.
        values = {"evaluate": "eager", "subject": "item"} | values
    return Rule(**values)


def shown(value: object) -> str:
    """The value for a message: short, on one line, whatever it is."""
    try:
        return _SHORT.repr(value)
    except (ValueError, RecursionError):
        # A number of thousands of digits, or what holds itself too deep.
        return f"a {type(value).__name__}"


def _unknown(name: object) -> str:
    if isinstance(name, str) and name in NOT_TAKEN:
        return f"{name}: is no field: {NOT_TAKEN[name]}; leave it out"
    return f"{shown(name)}: unknown field; known are {', '.join(_FIELDS)}"


def _read(name: str, value: object) -> Any:
    """The field's value. Raises BadRule."""
    if name in _CONDITIONS:
        # A record has null where a file says nothing.
        return None if value is None else _condition(name, value)
    if name == "and":
        return _further(value)
    try:
        found = msgspec.convert(_typed(name, value), _FIELDS[name].type)
    # Of half of a pair of characters there are no bytes to compare.
    except (msgspec.ValidationError, UnicodeError, RecursionError):
        _refuse(name, value)
    if problem := next(_wrong_inside(name, found), None):
        raise BadRule([f"{name}: {problem}"])
    return found


def _typed(name: str, value: object) -> object:
    """Texts of numbers and of yes or no as what they are; all else as it came."""
    match name:
        case "for" | "clear_for" | "delay" | "late_after":
            return _whole(value)
        case "backfill":
            return _FLAGS.get(value, value) if isinstance(value, str) else value
        case "minimum" if isinstance(value, Mapping):
            return {metric: _whole(least) for metric, least in value.items()}
        # The wire takes ids of stores as numbers too.
        case "stores" if isinstance(value, list):
            return [str(one) if _is_small_whole(one) else one for one in value]
    return value


def _whole(value: object) -> object:
    return int(value) if isinstance(value, str) and _WHOLE.match(value) else value


def _is_small_whole(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _wrong_inside(name: str, value: Any) -> Iterator[str]:
    """What no type says."""
    if name in ("title", "owner", "metric", "family"):
        yield from _unseen(value or "")
    if name in ("stores", "unless", "channels") and isinstance(value, tuple):
        seen: set[str] = set()
        for one in value:
            if one in seen:
                yield f"{one} stands there twice; name each once"
            seen.add(one)
    if isinstance(value, InGroup):
        yield from _unseen(value.region)
    if name == "within" and isinstance(value, tuple):
        for hours in value:
            try:
                weekdays_of(hours)
                span_of(hours)
            except ValueError as error:
                yield str(error)


def _unseen(text: str) -> Iterator[str]:
    for sign in text:
        if sign in _TURNING or unicodedata.category(sign) in _UNSEEN:
            yield f"holds the unseen character U+{ord(sign):04X}; take it out"


def _condition(name: str, told: object) -> Condition:
    if not isinstance(told, Mapping):
        _refuse(name, told)
    # By this field alone the two forms are told from each other.
    readers = _BASELINE if "baseline" in told else _THRESHOLD
    shape = AgainstBaseline if readers is _BASELINE else Threshold
    return shape(**_parts(name, told, readers))


def _further(told: object) -> tuple[FurtherCondition, ...]:
    if not isinstance(told, list) or len(told) > _MOST_FURTHER:
        _refuse("and", told)
    problems: list[str] = []
    found: list[FurtherCondition] = []
    for number, condition in enumerate(told, 1):
        try:
            if not isinstance(condition, Mapping):
                _refuse("and", condition)
            found.append(FurtherCondition(**_parts("and", condition, _FURTHER)))
        except BadRule as error:
            for problem in error.problems:
                part = problem.removeprefix("and").lstrip(".: ")
                problems.append(f"and: no. {number}: {part}")
    if problems:
        raise BadRule(problems)
    return tuple(found)


def _parts(name: str, told: _ConditionFields, readers: _PartReaders) -> dict[str, Any]:
    """The values of a condition's fields. Raises BadRule with one line for each problem."""
    problems: list[str] = []
    values: dict[str, Any] = {}
    for part, value in told.items():
        # A record has null for the one of `change` and `sigmas` that is not told.
        if value is None and part in _EITHER:
            continue
        try:
            values[part] = readers[part](value)
        except KeyError:
            known = ", ".join(readers)
            problems.append(f"{name}: {shown(part)}: unknown field; known are {known}")
        except ValueError as error:
            problems.append(f"{name}.{part}: {shown(value)} {error}")
    problems += (f"{name}: {wrong}" for wrong in _missing(readers, told))
    if problems:
        raise BadRule(problems)
    return values


def _missing(readers: _PartReaders, told: Mapping[Any, Any]) -> Iterator[str]:
    if readers is not _BASELINE:
        example = _EXAMPLE if readers is _THRESHOLD else _FURTHER_EXAMPLE
        missing = (part for part in readers if part not in told)
        yield from (f"{part} is missing; write {example}" for part in missing)
    elif len([part for part in _EITHER if told.get(part) is not None]) != 1:
        yield "either `change` or `sigmas` is wanted, and not both"


def _metric(value: object) -> object:
    try:
        name = msgspec.convert(value, NameText)
    except (msgspec.ValidationError, UnicodeError) as error:
        raise ValueError("is no id of a metric, e.g. transactions") from error
    if problem := next(_unseen(name), None):
        raise ValueError(problem)
    return name


def _comparison(value: object) -> object:
    if value not in get_args(ComparisonSign):
        raise ValueError("is no comparison; there are >=, >, <= and <")
    return value


def _decimal(value: object) -> Decimal:
    """A number as it is written; one that came as binary is the shortest that it may have been."""
    if type(value) is int and abs(value) < _MOST:
        return Decimal(value)
    text = repr(value) if isinstance(value, float) else value
    if isinstance(text, str) and _DECIMAL.match(text):
        return Decimal(text)
    raise ValueError("is no number of up to 15 digits, and 6 after the point, e.g. 6 or 0.25")


def _baseline(value: object) -> object:
    if value not in ("same_weekday_4w", "hour_of_week"):
        raise ValueError("is no baseline; there are same_weekday_4w and hour_of_week")
    return value


def _change(value: object) -> str:
    found = _CHANGE.match(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("is no change in percent, e.g. `<= -30 %`")
    # In one form, so that the same change in another is the same rule.
    return f"{found[1]} {int(found[2])} %"


def _sigmas(value: object) -> float:
    number = float(_decimal(value))
    if not 0 < number <= 100:
        raise ValueError("is no number above 0, at most 100")
    return number


def _refuse(name: str, value: object) -> NoReturn:
    raise BadRule([f"{name}: {shown(value)} does not fit; wanted: {FIELD_WORDS[name].wanted}"])


_EXAMPLE = '`{op: ">=", value: 6}`'
_FURTHER_EXAMPLE = '`{metric: transactions, op: "<", value: 5}`'
_THRESHOLD: _PartReaders = {"op": _comparison, "value": _decimal}
_FURTHER: _PartReaders = {"metric": _metric, **_THRESHOLD}
_BASELINE: _PartReaders = {"baseline": _baseline, "change": _change, "sigmas": _sigmas}
