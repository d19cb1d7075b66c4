"""Texts and numbers of a rule, as its file has them."""

import re
import unicodedata
from decimal import Decimal
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from tally.config.plain_values import AS_INTEGER, shorten_value

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
