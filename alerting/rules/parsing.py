"""Parsing of a rule from plain values, field by field; all wrong fields are reported at once.

The values come from JSON, or from YAML whose scalars are all texts.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from reprlib import Repr
from typing import Any, NoReturn, get_args

import msgspec
from msgspec import structs

from alerting.rules.clock_hours import parse_span, parse_weekdays
from alerting.rules.field_descriptions import FIELD_HELP, UNSUPPORTED_FIELDS
from alerting.rules.rule import (
    DECIMAL_PATTERN,
    AgainstBaseline,
    ComparisonSign,
    Condition,
    FurtherCondition,
    InGroup,
    NameText,
    Rule,
    Threshold,
)
from tally.errors import BadRule

_FIELDS = {field.encode_name: field for field in structs.fields(Rule)}
_PartReaders = Mapping[str, Callable[[object], Any]]
_ConditionFields = Mapping[Any, Any]
_CONDITIONS = ("condition", "clear")
_EXACTLY_ONE_OF = ("change", "sigmas")
_MAX_FURTHER = 10
# Longer numbers overflow the integers of msgspec.
_INTEGER = re.compile(r"-?\d{1,18}\Z", re.ASCII)
# Python accepts more as a number (1_000, nan, 1e400), which in a hand-written file is a mistake.
_DECIMAL = re.compile(DECIMAL_PATTERN + r"\Z", re.ASCII)
_INTEGER_LIMIT = 10**15
# Limits the message for a file that consists only of mistakes.
_MAX_PROBLEMS = 50
_CHANGE = re.compile(r"(<=|>=) ?([+-]?\d{1,4}) ?%\Z", re.ASCII)
_FLAGS = {"true": True, "false": False}
# Control characters, lone surrogates and line separators; and signs that reverse text direction.
_INVISIBLE_CATEGORIES = ("Cc", "Cs", "Zl", "Zp")
_DIRECTION_SIGNS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60
# Deeper and longer values are cut in messages.
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict = 2, 3, 3


def rule_from_fields(fields: object) -> Rule:
    """The rule from these values, with its defaults filled in.

    Only their shape is checked, not their meaning. Raises BadRule with one line for each field that
    does not fit, in the order of the file.
    """
    if not isinstance(fields, Mapping):
        raise BadRule(
            [f"{shorten_value(fields)} is no rule; fields are wanted, e.g. `rule_id: no-visitors`"]
        )
    problems: list[str] = []
    values: dict[str, Any] = {}
    for name, value in fields.items():
        if name not in _FIELDS:
            problems.append(_unknown_problem(name))
            continue
        try:
            values[_FIELDS[name].name] = _read_field(name, value)
        except BadRule as error:
            problems += error.problems
    # The missing field is reported last, after the fields of the file.
    if "rule_id" not in fields:
        problems.append(f"rule_id: is missing; wanted: {FIELD_HELP['rule_id'].allowed}")
    if problems:
        left = len(problems) - _MAX_PROBLEMS
        raise BadRule(problems[:_MAX_PROBLEMS] + [f"and {left} more"] * (left > 0))
    # A silence rule can only raise on silence.
    if values.get("kind") == "silence":
        values.setdefault("on_silence", "raise")
    if values.get("kind") == "stock":
        # The current stock is a fact at once, and only a single article can be sold out.
        values = {"evaluate": "eager", "subject": "item"} | values
    return Rule(**values)


def shorten_value(value: object) -> str:
    """Any value as a short text on one line, for a message."""
    try:
        return _SHORT.repr(value)
    except (ValueError, RecursionError):
        # The value is a number of thousands of digits, or is nested too deep.
        return f"a {type(value).__name__}"


def _unknown_problem(name: object) -> str:
    if isinstance(name, str) and name in UNSUPPORTED_FIELDS:
        return f"{name}: is no field: {UNSUPPORTED_FIELDS[name]}; leave it out"
    return f"{shorten_value(name)}: unknown field; known are {', '.join(_FIELDS)}"


def _read_field(name: str, value: object) -> Any:
    """The field's value. Raises BadRule."""
    if name in _CONDITIONS:
        # A record has null where a file has no value.
        return None if value is None else _read_condition(name, value)
    if name == "and":
        return _read_further(value)
    try:
        converted = msgspec.convert(_convert_texts(name, value), _FIELDS[name].type)
    # A lone surrogate has no bytes to compare.
    except (msgspec.ValidationError, UnicodeError, RecursionError):
        _refuse(name, value)
    if problem := next(_inner_problems(name, converted), None):
        raise BadRule([f"{name}: {problem}"])
    return converted


def _convert_texts(name: str, value: object) -> object:
    """The value with texts of numbers and flags converted; all others are unchanged."""
    match name:
        case "for" | "clear_for" | "delay" | "late_after":
            return _read_integer(value)
        case "backfill":
            return _FLAGS.get(value, value) if isinstance(value, str) else value
        case "minimum" if isinstance(value, Mapping):
            return {metric: _read_integer(least) for metric, least in value.items()}
        # JSON may have store ids as numbers too.
        case "stores" if isinstance(value, list):
            return [str(store) if _is_small_integer(store) else store for store in value]
    return value


def _read_integer(value: object) -> object:
    return int(value) if isinstance(value, str) and _INTEGER.match(value) else value


def _is_small_integer(value: object) -> bool:
    return type(value) is int and 0 <= value < _INTEGER_LIMIT


def _inner_problems(name: str, value: Any) -> Iterator[str]:
    """Problems of a value that its type does not express."""
    if name in ("title", "owner", "metric", "family"):
        yield from _find_invisible_characters(value or "")
    if name in ("stores", "unless", "channels") and isinstance(value, tuple):
        seen: set[str] = set()
        for entry in value:
            if entry in seen:
                yield f"{entry} stands there twice; name each once"
            seen.add(entry)
    if isinstance(value, InGroup):
        yield from _find_invisible_characters(value.region)
    if name == "within" and isinstance(value, tuple):
        for hours in value:
            try:
                parse_weekdays(hours)
                parse_span(hours)
            except ValueError as error:
                yield str(error)


def _find_invisible_characters(text: str) -> Iterator[str]:
    for sign in text:
        if sign in _DIRECTION_SIGNS or unicodedata.category(sign) in _INVISIBLE_CATEGORIES:
            yield f"holds the unseen character U+{ord(sign):04X}; take it out"


def _read_condition(name: str, fields: object) -> Condition:
    if not isinstance(fields, Mapping):
        _refuse(name, fields)
    # This field alone distinguishes the two forms.
    readers = _BASELINE if "baseline" in fields else _THRESHOLD
    shape = AgainstBaseline if readers is _BASELINE else Threshold
    return shape(**_read_parts(name, fields, readers))


def _read_further(conditions: object) -> tuple[FurtherCondition, ...]:
    if not isinstance(conditions, list) or len(conditions) > _MAX_FURTHER:
        _refuse("and", conditions)
    problems: list[str] = []
    parsed: list[FurtherCondition] = []
    for number, condition in enumerate(conditions, 1):
        try:
            if not isinstance(condition, Mapping):
                _refuse("and", condition)
            parsed.append(FurtherCondition(**_read_parts("and", condition, _FURTHER)))
        except BadRule as error:
            for problem in error.problems:
                part = problem.removeprefix("and").lstrip(".: ")
                problems.append(f"and: no. {number}: {part}")
    if problems:
        raise BadRule(problems)
    return tuple(parsed)


def _read_parts(name: str, fields: _ConditionFields, readers: _PartReaders) -> dict[str, Any]:
    """The values of a condition's fields. Raises BadRule with one line for each problem."""
    problems: list[str] = []
    values: dict[str, Any] = {}
    for part, value in fields.items():
        # A record has null for the unused one of `change` and `sigmas`.
        if value is None and part in _EXACTLY_ONE_OF:
            continue
        try:
            values[part] = readers[part](value)
        except KeyError:
            known = ", ".join(readers)
            problems.append(f"{name}: {shorten_value(part)}: unknown field; known are {known}")
        except ValueError as error:
            problems.append(f"{name}.{part}: {shorten_value(value)} {error}")
    problems += (f"{name}: {wrong}" for wrong in _missing_parts(readers, fields))
    if problems:
        raise BadRule(problems)
    return values


def _missing_parts(readers: _PartReaders, fields: Mapping[Any, Any]) -> Iterator[str]:
    if readers is not _BASELINE:
        example = _EXAMPLE if readers is _THRESHOLD else _FURTHER_EXAMPLE
        missing = (part for part in readers if part not in fields)
        yield from (f"{part} is missing; write {example}" for part in missing)
    elif len([part for part in _EXACTLY_ONE_OF if fields.get(part) is not None]) != 1:
        yield "either `change` or `sigmas` is wanted, and not both"


def _read_metric(value: object) -> object:
    try:
        name = msgspec.convert(value, NameText)
    except (msgspec.ValidationError, UnicodeError) as error:
        raise ValueError("is no id of a metric, e.g. transactions") from error
    if problem := next(_find_invisible_characters(name), None):
        raise ValueError(problem)
    return name


def _read_comparison(value: object) -> object:
    if value not in get_args(ComparisonSign):
        raise ValueError("is no comparison; there are >=, >, <= and <")
    return value


def _read_decimal(value: object) -> Decimal:
    """A number as written; a float becomes the shortest decimal that stands for it."""
    if type(value) is int and abs(value) < _INTEGER_LIMIT:
        return Decimal(value)
    text = repr(value) if isinstance(value, float) else value
    if isinstance(text, str) and _DECIMAL.match(text):
        return Decimal(text)
    raise ValueError("is no number of up to 15 digits, and 6 after the point, e.g. 6 or 0.25")


def _read_baseline(value: object) -> object:
    if value not in ("same_weekday_4w", "hour_of_week"):
        raise ValueError("is no baseline; there are same_weekday_4w and hour_of_week")
    return value


def _read_change(value: object) -> str:
    matched = _CHANGE.match(value) if isinstance(value, str) else None
    if matched is None:
        raise ValueError("is no change in percent, e.g. `<= -30 %`")
    # One spelling, so that the same change written differently is the same rule.
    return f"{matched[1]} {int(matched[2])} %"


def _read_sigmas(value: object) -> float:
    number = float(_read_decimal(value))
    if not 0 < number <= 100:
        raise ValueError("is no number above 0, at most 100")
    return number


def _refuse(name: str, value: object) -> NoReturn:
    raise BadRule(
        [f"{name}: {shorten_value(value)} does not fit; wanted: {FIELD_HELP[name].allowed}"]
    )


_EXAMPLE = '`{op: ">=", value: 6}`'
_FURTHER_EXAMPLE = '`{metric: transactions, op: "<", value: 5}`'
_THRESHOLD: _PartReaders = {"op": _read_comparison, "value": _read_decimal}
_FURTHER: _PartReaders = {"metric": _read_metric, **_THRESHOLD}
_BASELINE: _PartReaders = {
    "baseline": _read_baseline,
    "change": _read_change,
    "sigmas": _read_sigmas,
}
