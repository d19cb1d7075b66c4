"""The view family of a source as its descriptor defines it: its kind, its axes, its parts."""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Annotated, Literal, NamedTuple

import msgspec

FieldName = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_]{0,39}$")]
Words = Annotated[str, msgspec.Meta(min_length=1)]
Epoch = Annotated[int, msgspec.Meta(ge=1)]
# The CQL type of the columns of each kind of part; tally/algebra/parts.py defines the kinds.
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
    """A part: how a window combines the whole numbers of its events' field of this name."""

    name: FieldName
    kind: Literal[
        "sum", "count", "min", "max", "uniques", "histogram", "keyed_sum", "keyed_spans", "level"
    ]
    unit: Words
    meaning: Words
    # Records that are older than the part have no field for it: it is 0.
    optional: bool = False


class RaisedDays(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """UTC days, first to last inclusive, whose rows are recomputed under a higher epoch."""

    first: date
    last: date
    epoch: Epoch


class ReadingShape(NamedTuple):
    """The fields that the operator of a derived family reads, and the parts that it makes of them.

    The fields are texts and whole numbers; the parts have the kind that each must be of. The
    arithmetic is in tally/people/visit_parts.py.
    """

    # The regular expression of each text by name, as Java reads it: $ would accept the end of a
    # line.
    texts: Mapping[str, str]
    numbers: tuple[str, ...]
    parts: Mapping[str, str]


READINGS = {
    "presence": ReadingShape(
        {
            "mac_class": r"\A(fixed|random_associated|random_probe|access_point)\z",
            "device_hash": r"\A[0-9a-f]{32}\z",
            # The format that tally/people/visits.py reads.
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

    A higher epoch replaces what was computed before: `epoch` on all days, `raised` on some. The
    events of a derived family have no fields for their parts: `reading` names the operator that
    computes the parts.
    """

    kind: Literal["additive", "derived", "level"]
    reading: Literal["presence"] | None = None
    epoch: Epoch
    axes: tuple[FieldName, ...]
    parts: Annotated[tuple[PartShape, ...], msgspec.Meta(min_length=1)]
    raised: tuple[RaisedDays, ...] = ()


def check_parts(family: FamilyShape) -> Iterable[tuple[str, str]]:
    """Pairs of a field and what is wrong with the kind of a family next to those of its parts."""
    # The kind of a family says that its windows do not add up, though most of its parts may.
    if (family.kind == "level") != any(part.kind == "level" for part in family.parts):
        yield "family.parts", "a family of kind level has a part of that kind, no other has one"


def check_reading(family: FamilyShape) -> Iterable[tuple[str, str]]:
    """Pairs of a field and what is wrong with the reading of a derived family."""
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


def field_types(family: FamilyShape) -> dict[str, str]:
    """The fields of a record that the family's rows are computed from, and their types."""
    if family.reading is not None:
        reading = READINGS[family.reading]
        texts, numbers = tuple(reading.texts), reading.numbers
    else:
        texts, numbers = family.axes, tuple(part.name for part in family.parts)
    return dict.fromkeys(texts, "string") | dict.fromkeys(numbers, "integer")
