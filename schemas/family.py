"""The view family of a source as its descriptor has it: its kind, its axes, its parts."""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Annotated, Literal, NamedTuple

import msgspec

FieldName = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_]{0,39}$")]
Words = Annotated[str, msgspec.Meta(min_length=1)]
Epoch = Annotated[int, msgspec.Meta(ge=1)]
# The CQL type of the columns of each kind of part; what the kinds mean: tally/algebra/parts.py.
COLUMN_TYPES = {
    "sum": "bigint",
    "count": "bigint",
    "min": "bigint",
    "max": "bigint",
    "uniques": "frozen<list<bigint>>",
    "histogram": "frozen<list<frozen<tuple<bigint, bigint>>>>",
    "keyed_sum": "frozen<list<frozen<tuple<bigint, bigint>>>>",
    "keyed_spans": "frozen<list<frozen<tuple<bigint, bigint>>>>",
    "level": "frozen<list<frozen<tuple<bigint, bigint>>>>",
}


class PartShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a window makes of the whole numbers that its events bring in the field of this name."""

    name: FieldName
    kind: Literal[
        "sum", "count", "min", "max", "uniques", "histogram", "keyed_sum", "keyed_spans", "level"
    ]
    unit: Words
    meaning: Words
    # Records of before there was the part have no field of it: it is 0.
    optional: bool = False


class RaisedDays(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """UTC days, first to last inclusive, whose rows are computed anew under a higher epoch."""

    first: date
    last: date
    epoch: Epoch


class ReadingShape(NamedTuple):
    """What the operator of a derived family reads of a record, and the parts that it makes of it.

    Texts and whole numbers; parts by the kind that each has to be of. The arithmetic:
    tally/visit_parts.py.
    """

    # By name the regular expression that each matches, as Java reads it: $ would let a line's end
    # pass.
    texts: Mapping[str, str]
    numbers: tuple[str, ...]
    parts: Mapping[str, str]


READINGS = {
    "presence": ReadingShape(
        {
            "mac_class": r"\A(fixed|random_associated|random_probe|access_point)\z",
            "device_hash": r"\A[0-9a-f]{32}\z",
            # As tally/opening.py reads it.
            "open_at": r"\A(unknown|closed|[0-9]+-[0-9]+(,[0-9]+-[0-9]+)*+)\z",
        },
        ("rssi_dbm", "period_start", "period_end"),
        {
            "visits": "sum",
            "returns": "sum",
            "passes": "sum",
            "bounces": "sum",
            "stay_seconds": "sum",
            "stay_minutes": "histogram",
            "interval_seconds": "histogram",
            "visitors": "uniques",
            "device_minutes": "sum",
            "device_windows": "sum",
            "observed_seconds": "keyed_sum",
        },
    )
}


class FamilyShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The rows of the source's views.

    A higher epoch replaces what was computed before: `epoch` on all days, `raised` on some. What a
    derived family's events bring is not in their fields: `reading` says what makes it of them.
    """

    kind: Literal["additive", "derived", "level"]
    reading: Literal["presence"] | None = None
    epoch: Epoch
    axes: tuple[FieldName, ...]
    parts: Annotated[tuple[PartShape, ...], msgspec.Meta(min_length=1)]
    raised: tuple[RaisedDays, ...] = ()


def wrong_parts(family: FamilyShape) -> Iterable[tuple[str, str]]:
    """Field and what is wrong with the kinds of a family and of its parts beside each other."""
    # A family says by its kind that its windows do not add up, though most of its parts may.
    if (family.kind == "level") != any(part.kind == "level" for part in family.parts):
        yield "family.parts", "a family of kind level has a part of that kind, no other has one"


def wrong_reading(family: FamilyShape) -> Iterable[tuple[str, str]]:
    """Field and what is wrong with what a derived family is read from."""
    if (family.kind == "derived") != (family.reading is not None):
        yield "family.reading", "a derived family has one, and no other"
    if family.reading is None:
        return
    reading = READINGS[family.reading]
    for part in family.parts:
        if reading.parts.get(part.name) != part.kind:
            yield "family.parts", f"{family.reading} makes no {part.kind} {part.name!r}"
    for axis in family.axes:
        if axis not in reading.texts:
            yield "family.axes", f"{family.reading} knows no {axis!r}"


def brought(family: FamilyShape) -> dict[str, str]:
    """The fields of a record that its rows are made of, and their types."""
    if family.reading is not None:
        reading = READINGS[family.reading]
        texts, numbers = tuple(reading.texts), reading.numbers
    else:
        texts, numbers = family.axes, tuple(part.name for part in family.parts)
    return dict.fromkeys(texts, "string") | dict.fromkeys(numbers, "integer")
