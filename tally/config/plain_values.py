"""Plain values of files and variables, as pydantic reads them: one text for all that is wrong.

The values come from JSON, or from YAML whose scalars are all texts.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date
from reprlib import Repr
from typing import Annotated, Any, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    ValidationError,
    with_config,
)

from tally.events.identity import IDENTIFIER

# Python accepts more as a number (1_000, ` 2`, 2.0), which in a hand-written file is a mistake.
_INTEGER = re.compile(r"-?\d{1,18}\Z", re.ASCII)
_INTEGER_LIMIT = 10**15
_DAY = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
_FLAGS = {"true": True, "false": False}
# Limits the message for a file that consists only of mistakes.
_MAX_PROBLEMS = 50
# Other names are quoted, because they come from the file.
_PLAIN_NAME = re.compile(r"[\w:.-]{1,64}\Z")
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60
# Deeper and longer values are cut in messages.
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict = 2, 3, 3

FieldPlace: TypeAlias = tuple[int | str, ...]
# Tags of the forms of a value, for unions; they are left out of a field's path.
WORD, LIST, FIELDS, OTHER_FIELDS = "<word>", "<list>", "<fields>", "<other fields>"
# Parts of a place that are not in the file; `[key]` is pydantic's own.
_NOT_IN_FILE = frozenset((WORD, LIST, FIELDS, OTHER_FIELDS, "[key]"))
_UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")
_NO_MAPPING = ("dataclass_type", "model_type", "dict_type")


def shorten_value(value: object) -> str:
    """Any value as a short text on one line, for a message."""
    try:
        return _SHORT.repr(value)
    except (ValueError, RecursionError):
        # The value is a number of thousands of digits, or is nested too deep.
        return f"a {type(value).__name__}"


def list_problems(
    error: ValidationError,
    wanted: Mapping[str, str],
    locate: Callable[[FieldPlace], FieldPlace] = lambda place: place,
    show: Callable[[object], str] = shorten_value,
) -> list[str]:
    """One line for each wrong value: the path of its field in the file, what is wrong, the fix.

    `wanted`: the values of each field in words, by its name in the file; `locate`: the place in the
    file of a place in the validated value; `show`: a wrong value as text.
    """
    found = error.errors(include_url=False)
    outer = set[FieldPlace]()
    for entry in found:
        outer |= {entry["loc"][:length] for length in range(len(entry["loc"]))}
    # A list whose entries are wrong counts as too short, which says nothing more.
    found = [entry for entry in found if entry["type"] != "too_short" or entry["loc"] not in outer]
    left = len(found) - _MAX_PROBLEMS
    lines = [
        _describe({**entry}, locate(entry["loc"]), wanted, show(entry["input"]))
        for entry in found[:_MAX_PROBLEMS]
    ]
    return lines + [f"and {left} more"] * (left > 0)


def _describe(
    entry: Mapping[str, Any], place: FieldPlace, wanted: Mapping[str, str], shown: str
) -> str:
    parts = [part for part in place if part not in _NOT_IN_FILE]
    names = [part for part in parts if isinstance(part, str)]
    is_unknown = entry["type"] in _UNKNOWN
    # A check of ours has a text, unless the words for the field say it all.
    if entry["type"] == "value_error" and (text := str(entry["ctx"]["error"])):
        return f"{_path(parts)}{text}"
    words = next((wanted[name] for name in reversed(names) if name in wanted), "")
    if is_unknown and not words:
        fix = f"known are {', '.join(wanted)}" if wanted else "leave it out"
        return f"{_path(parts)}unknown field; {fix}"
    if is_unknown or entry["type"] == "missing":
        text = "unknown field" if is_unknown else "is missing"
    elif names and names[-1] in wanted:
        text = f"{shown} does not fit"
    else:
        # What is wanted of a part of the field is in pydantic's text.
        text = "fields are wanted" if entry["type"] in _NO_MAPPING else entry["msg"]
        return f"{_path(parts)}{text} (got {shown})"
    return f"{_path(parts)}{text}; wanted: {words}" if words else f"{_path(parts)}{text}"


def _path(parts: list[int | str]) -> str:
    texts = (
        f"[{part}]"
        if isinstance(part, int)
        else f".{part if _PLAIN_NAME.match(part) else shorten_value(part)}"
        for part in parts
    )
    path = "".join(texts).removeprefix(".")
    # A file that cannot be read has no place.
    return f"{path}: " if path else ""


def _read_integer(value: object) -> object:
    return int(value) if isinstance(value, str) and _INTEGER.match(value) else value


def _read_flag(value: object) -> object:
    return _FLAGS.get(value, value) if isinstance(value, str) else value


def _read_id(value: object) -> object:
    # JSON may have ids of stores as numbers too.
    return str(value) if type(value) is int and 0 <= value < _INTEGER_LIMIT else value


def _read_day(value: object) -> date:
    if isinstance(value, date):
        return value
    try:
        # One form only: 20260501 beside 2026-05-01 would be one day with two changes.
        if isinstance(value, str) and _DAY.match(value):
            return date.fromisoformat(value)
    except ValueError:
        pass  # reported below: the form is right, and the calendar has no such day
    raise ValueError(f"{shorten_value(value)} is no day, e.g. 2026-05-01")


def check_identifier(name: str) -> str:
    """The name. Raises ValueError for one that is no identifier of records."""
    if IDENTIFIER.fullmatch(name) is None:
        raise ValueError(f"{shorten_value(name)} is not 1 to 64 of A-Z a-z 0-9 . _ : -")
    return name


def _form_tag(value: object) -> str:
    if isinstance(value, str):
        return WORD
    return LIST if isinstance(value, list | tuple) else FIELDS


# For types as Annotated[int, Field(strict=True, ge=1), AS_INTEGER].
AS_INTEGER = BeforeValidator(_read_integer)
# Limits of this one are checked, and are not in a JSON Schema.
WholeNumber = Annotated[int, Field(strict=True), AS_INTEGER]
# For a union of a word, a list and fields, each with its tag.
BY_FORM = Discriminator(_form_tag)
Flag = Annotated[bool, Field(strict=True), BeforeValidator(_read_flag)]
FileDay = Annotated[date, BeforeValidator(_read_day)]
Identifier = Annotated[str, AfterValidator(check_identifier)]
FileStoreId = Annotated[str, Field(pattern=r"^[A-Za-z0-9._:-]{1,64}$"), BeforeValidator(_read_id)]
# For dataclasses whose unknown fields are mistakes.
STRICT_FIELDS = with_config(ConfigDict(extra="forbid"))
