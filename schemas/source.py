"""A source of events as its folder describes it: `source.yaml`, read and checked."""

import re
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import yaml

DESCRIPTOR = "source.yaml"
# Ten times as fast as the one in Python; every command reads the sources.
_YAML: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Pairs of a field and what is wrong with it.
Problems = Iterable[tuple[str, str]]
# Columns and fields that every family has already, and those that transforms add to them.
RESERVED_NAMES = frozenset(
    re.findall(
        r"\w+",
        """schema_version event_id store_id happened_at received_at fingerprint raw_partition
        raw_offset extra repeat sender day window_start dim dim_value events epoch generation topic
        partition offset committed_at crc is_readable is_repeat excluded id at left_out source value
        axes members window sums last first_copies is_utf8 fate elsewhere event_date
        first_date pinned""",
    )
)

# A table's name in Cassandra has 48 characters, of which `batch_` and `_15min` take twelve; a name
# that begins with `batch_` would be the batch table of another family.
FamilyName = Annotated[str, msgspec.Meta(pattern="^(?!batch_)[a-z][a-z0-9_]{0,35}$")]
Topic = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$")]
HttpPath = Annotated[str, msgspec.Meta(pattern="^/v1/events/[a-z0-9][a-z0-9_-]{0,63}$")]
Seconds = Annotated[int, msgspec.Meta(ge=1)]
_MISSING = re.compile("Object missing required field `([^`]+)`")
FieldName = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_]{0,39}$")]
Words = Annotated[str, msgspec.Meta(min_length=1)]
Epoch = Annotated[int, msgspec.Meta(ge=1)]
# The CQL type of the columns of each kind of part; tally/algebra/parts.py defines the kinds.
COLUMN_TYPES = {
    **dict.fromkeys(("sum", "count", "min", "max"), "bigint"),
    "uniques": "frozen<list<bigint>>",
    **dict.fromkeys(
        ("histogram", "keyed_sum", "keyed_spans", "level"),
        "frozen<list<frozen<tuple<bigint, bigint>>>>",
    ),
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
    arithmetic is in tally/people/visits.py.
    """

    # The regular expression of each text by name, for Java: $ would accept the end of a line.
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

    A higher epoch replaces what was computed before: `epoch` on all days, `raised` on some. Events
    of a derived family have no fields for their parts: `reading` names what computes them.
    """

    kind: Literal["additive", "derived", "level"]
    reading: Literal["presence"] | None = None
    epoch: Epoch
    axes: tuple[FieldName, ...]
    parts: Annotated[tuple[PartShape, ...], msgspec.Meta(min_length=1)]
    raised: tuple[RaisedDays, ...] = ()


def field_types(family: FamilyShape) -> dict[str, str]:
    """The fields of a record that the family's rows are computed from, and their types."""
    if family.reading is not None:
        reading = READINGS[family.reading]
        texts, numbers = tuple(reading.texts), reading.numbers
    else:
        texts, numbers = family.axes, tuple(part.name for part in family.parts)
    return dict.fromkeys(texts, "string") | dict.fromkeys(numbers, "integer")


class BadSource(ValueError):
    """Raised when a source's folder is invalid; the message names the file and the field."""


class RecordField(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A field of the canonical record; `fields` are those of an object, or of an array's items.

    `minimum`: no record has less. A sum of numbers of at least 0 never falls while records arrive.
    """

    name: FieldName
    type: Literal["string", "integer", "boolean", "object", "array"]
    meaning: Words
    unit: str | None = None
    optional: bool = False
    minimum: int | None = None
    values: tuple[str, ...] = ()
    fields: tuple["RecordField", ...] = ()


class Descriptor(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of source.yaml.

    The name is also that of the view family and of the canonical topic; `event` is the name of one
    event, `identity` describes in words what distinguishes one from another within a store.
    """

    name: FamilyName
    event: Words
    meaning: Words
    raw_topic: Topic
    path: HttpPath
    identity: Words
    happened_at: Words
    # All copies of one identity then lie on one day, and a rebuild needs no index of them.
    identity_has_instant: bool = False
    lateness_seconds: Seconds
    family: FamilyShape
    # The field of the stores file that lists the sensors from which events are expected.
    listed_as: Literal["sensors", "access_points"] | None = None
    fields: tuple[RecordField, ...]


class Source(Descriptor, frozen=True, kw_only=True):
    """A source, and the folder that describes it."""

    folder: Path

    @property
    def file(self) -> Path:
        """The path of its source.yaml."""
        return self.folder / DESCRIPTOR

    @property
    def formats(self) -> dict[str, Path]:
        """Vendors' own formats that are accepted too: name, and the adapter's file."""
        # Sorted, so that the paths of the gateway have the same order on every machine.
        files = sorted((self.folder / "vendors").glob("[a-z]*.py"))
        return {file.stem: file for file in files}


def read_source(folder: Path) -> Source:
    """The source of a folder. Raises BadSource."""
    file = folder / DESCRIPTOR
    descriptor: Descriptor = read_yaml(file, Descriptor)
    source = Source(**msgspec.structs.asdict(descriptor), folder=folder)
    for field, wrong in _find_problems(source):
        raise BadSource(f"{file}: {field}: {wrong}")
    return source


def index_by_name(
    found: Iterable[Source],
    taken: Mapping[str, str],
) -> dict[str, Source]:
    """The sources by name, in order.

    `taken` maps topics that belong to no source to their owners. Raises BadSource when two sources
    claim one name, topic or path.
    """
    sources: dict[str, Source] = {}
    owners = {("topic", name): whose for name, whose in taken.items()}
    roles: dict[str, tuple[str, str]] = {}
    # Topics, raw and canonical, share one name space; paths have another.
    for source in found:
        for field, kind, value in (
            ("name", "topic", source.name),
            ("raw_topic", "topic", source.raw_topic),
            ("path", "path", source.path),
        ):
            whose = owners.setdefault((kind, value), f"{source.file} ({field})")
            if whose != f"{source.file} ({field})":
                raise BadSource(f"{source.file}: {field}: {value!r} is that of {whose}")
        _check_roles(source, roles)
        sources[source.name] = source
    return sources


def _check_roles(source: Source, roles: dict[str, tuple[str, str]]) -> None:
    """Raise BadSource if a name is an axis (text) of one family and a part (number) of another.

    The speed layer reads the records of all families with one schema.
    """
    for name, kind in field_types(source.family).items():
        role = {"string": "an axis", "integer": "a part"}[kind]
        known, file = roles.setdefault(name, (role, str(source.file)))
        if known != role:
            raise BadSource(f"{source.file}: family: {name!r} is {role} here, not in {file}")


def _find_problems(source: Source) -> Problems:
    """What is wrong, by rules that no type can express."""
    for beside in ("contract.py", "message.schema.json", "example.json", "bad.yaml"):
        if not (source.folder / beside).is_file():
            yield beside, "the file is missing beside the descriptor"
    # A name that is there twice is caught below: a mapping alone would hide it.
    fields = {field.name: field for field in source.fields}
    columns = [*source.family.axes, *(part.name for part in source.family.parts)]
    names = [field.name for field in source.fields]
    for place, listed in (("family", columns), ("fields", names)):
        for name in listed:
            if listed.count(name) > 1:
                yield place, f"{name!r} is there twice"
            if name in RESERVED_NAMES or name.startswith("excluded_"):
                yield place, f"{name!r} is a name that every family has already"
    for field in source.fields:
        if field.minimum is not None and field.type != "integer":
            yield "fields", f"{field.name!r} is no integer, and has no minimum"
    for span in source.family.raised:
        if span.first > span.last:
            yield "family.raised", f"{span.first} is after {span.last}"
        if span.epoch <= source.family.epoch:
            wrong = f"epoch {span.epoch} is not above {source.family.epoch}, that of all days"
            yield "family.raised", wrong
    yield from _check_family(source.family)
    optional = {part.name for part in source.family.parts if part.optional}
    for name, wanted in field_types(source.family).items():
        is_wanted = (wanted, name in optional)
        if name not in fields or (fields[name].type, fields[name].optional) != is_wanted:
            how = "optional" if name in optional else "not optional"
            yield "fields", f"{name!r} is to be one of them, of type {wanted} and {how}"


def _check_family(family: FamilyShape) -> Problems:
    """What is wrong with the kind of a family next to its parts and to its reading."""
    # The kind of a family says that its windows do not add up, though most of its parts may.
    if (family.kind == "level") != any(part.kind == "level" for part in family.parts):
        yield "family.parts", "a family of kind level has a part of that kind, no other has one"
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


def read_yaml(file: Path, shape: Any) -> Any:
    """The file's content as a value of the shape, a type that msgspec knows. Raises BadSource."""
    try:
        # Strict: `1h` is no number of seconds, and an unknown field is a mistake.
        return msgspec.convert(yaml.load(file.read_text("utf-8"), _YAML), shape)
    except OSError as error:
        raise BadSource(f"{file}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadSource(f"{file}: is no YAML: {' '.join(str(error).split())}") from error
    except msgspec.ValidationError as error:
        raise BadSource(f"{file}: {_locate(str(error))}") from error


def _locate(message: str) -> str:
    """The message with msgspec's path, e.g. `$.family.parts[0].kind`, moved to the front.

    >>> _locate("Object missing required field `sum` - at `$.value`")
    'value.sum: the field is missing'
    """
    reason, _, place = message.partition(" - at `$")
    place = place.rstrip("`").lstrip(".")
    if missing := _MISSING.fullmatch(reason):
        place, reason = f"{place}.{missing[1]}".lstrip("."), "the field is missing"
    return f"{place}: {reason}" if place else reason


def read_json_file(source: Source, name: str) -> dict[str, Any]:
    """The content of a JSON file of the source's folder. Raises BadSource."""
    file = source.folder / name
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise BadSource(f"{file}: {error}") from error
