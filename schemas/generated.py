"""The topics, tables and canonical JSON Schema that follow from a source's descriptor."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from schemas.source import COLUMN_TYPES, RecordField, Source

SCHEMA_VERSION = 1
# Words that CQL accepts as names only in quotes.
_RESERVED = frozenset(
    re.findall(
        r"\w+",
        """add allow alter and apply asc authorize batch begin by columnfamily create default delete
        desc describe drop entries execute from full grant if in index infinity insert into is
        keyspace limit materialized mbean mbeans modify nan norecursive not null of on or order
        password primary rename replace revoke schema select set table to token truncate unlogged
        unset update use using view where with""",
    )
)
_STATE = "distinct (event_id, window) considered, before exclusions and conflicts"
_EXCLUDED = "conflicts whose first copy lies in another window: counted in events, not in values"


class Column(NamedTuple):
    """A column of a table; the remark is for people who read the file."""

    name: str
    type: str
    remark: str = ""


Columns = Sequence[Column]


def build_topics(source: Source) -> dict[str, dict[str, str]]:
    """The source's raw and canonical topic, in the form of the others in schemas/topics.yaml."""
    raw = {"kind": "raw", "meaning": f"{source.meaning}, as they are sent"}
    meaning = f"{source.meaning}, one normalised record each, keyed by store_id"
    return {
        source.raw_topic: raw,
        source.name: {"kind": "canonical", "raw": source.raw_topic, "meaning": meaning},
    }


def render_views(source: Source) -> str:
    """The two CREATE TABLE statements of the source's views, with remarks (CQL)."""
    # The key of tally/families/family.py: a window's rows are adjacent, its total row among them.
    key = ("window_start", *source.family.axes, "dim", "dim_value")
    axes = ", ".join(map(_quote, key))
    made = f"Made from source.yaml of {source.name} by python -m ops.docs; do not edit."
    # On one line, like the remarks below.
    meaning = " ".join(source.meaning.split())
    shown = f"{made} Totals of {meaning} by store and 15-minute window (UTC)."
    speed = [
        f"-- {shown} Speed rows: written only with USING TIMESTAMP epoch * 2^40 + events.",
        *_table_lines(
            f"{source.name}_15min", _speed_columns(source), f"(store_id, day), {axes}", ""
        ),
    ]
    batch = [
        "-- The same view as rebuilt from the master dataset. A generation has the rows that differ"
        " from those served before: of each row the newest version counts that a published"
        " generation up to the wanted one has written. excluded_* is what a richer speed row must"
        " give back.",
        *_table_lines(
            f"batch_{source.name}_15min",
            _batch_columns(source),
            f"(store_id, day), {axes}, generation",
            f"CLUSTERING ORDER BY ({', '.join(f'{_quote(name)} ASC' for name in key)},"
            " generation DESC) AND ",
        ),
    ]
    return "\n".join([*speed, "", *batch, ""])


def _speed_columns(source: Source) -> list[Column]:
    fields = {field.name: field for field in source.fields}
    axes = source.family.axes
    return [
        Column("store_id", "text", "the store"),
        Column("day", "date", "UTC day of window_start"),
        Column("window_start", "timestamp", "UTC, aligned to 15 minutes"),
        *(Column(axis, "text", _remark(fields[axis])) for axis in axes),
        Column("dim", "text", "'*' for the window's total row"),
        Column("dim_value", "text", "'' for the window's total row"),
        Column("events", "bigint", _STATE),
        *(
            Column(part.name, COLUMN_TYPES[part.kind], f"{part.meaning} ({part.unit})")
            for part in source.family.parts
        ),
        Column("epoch", "int", "definition epoch; a higher one replaces"),
    ]


def _batch_columns(source: Source) -> list[Column]:
    remarks = {"events": "null: from this generation on there is no such row"}
    store, day, *rest = (
        Column(column.name, column.type, remarks.get(column.name, ""))
        for column in _speed_columns(source)
    )
    generation = Column("generation", "bigint", "fencing token of the rebuild that wrote the row")
    excluded = [
        Column(f"excluded_{part.name}", COLUMN_TYPES[part.kind]) for part in source.family.parts
    ]
    # One remark is enough: the columns after it mean the same for their parts.
    excluded[0] = excluded[0]._replace(remark=_EXCLUDED)
    return [store, day, generation, *rest, *excluded]


def _table_lines(name: str, columns: Columns, key: str, order: str) -> Iterator[str]:
    named = [_quote(column.name) for column in columns]
    width = max(map(len, named))
    yield f"CREATE TABLE IF NOT EXISTS {name} ("
    for column, shown in zip(columns, named, strict=True):
        # On one line: text after the end of a line is CQL again.
        remark = f" -- {' '.join(column.remark.split())}" if column.remark else ""
        yield f"  {shown:<{width}} {column.type},{remark}"
    yield f"  PRIMARY KEY ({key})"
    yield f") WITH {order}compaction = {{'class': 'UnifiedCompactionStrategy'}};"


def _quote(name: str) -> str:
    return f'"{name}"' if name in _RESERVED else name


def _remark(field: RecordField) -> str:
    return f"{field.meaning} ({field.unit})" if field.unit else field.meaning


def build_event_schema(source: Source) -> dict[str, Any]:
    """JSON Schema of the source's canonical record."""
    utc = "UTC, RFC 3339, milliseconds, Z"
    digest = "digest of the source fields before enrichment"
    head = [
        _property("schema_version", "integer", "", "version of this shape"),
        _property("event_id", "string", None, "identity together with source and store_id"),
        _property("store_id", "string", None, "the store, also the record's key"),
        _property("happened_at", "string", utc, source.happened_at),
        _property("received_at", "string", utc, "Kafka timestamp of the raw record"),
        _property("fingerprint", "string", "hex, 128 bits", digest),
        _property("raw_partition", "integer", "", "partition of the raw record"),
        _property("raw_offset", "integer", "", "offset of the raw record"),
    ]
    extra = "unknown fields of the message, kept without what is personal"
    repeat = "an exact copy of a record that lies before it in the topic; left out of any other"
    sender = "who sent the message; left out where senders do not sign in"
    tail = [
        _property("extra", "object", None, extra, optional=True),
        _property("repeat", "boolean", None, repeat, optional=True),
        _property("sender", "string", None, sender, optional=True),
    ]
    shape = _object_schema([*head, *source.fields, *tail])
    shape["properties"]["schema_version"]["const"] = SCHEMA_VERSION
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Canonical {source.event}",
        "type": "object",
        **shape,
    }


def _property(
    name: str, kind: Any, unit: str | None, meaning: str, optional: bool = False
) -> RecordField:
    return RecordField(name=name, type=kind, unit=unit, meaning=meaning, optional=optional)


def _object_schema(fields: Sequence[RecordField]) -> dict[str, Any]:
    return {
        "additionalProperties": False,
        "required": [field.name for field in fields if not field.optional],
        "properties": {field.name: _field_schema(field) for field in fields},
    }


def _field_schema(field: RecordField) -> dict[str, Any]:
    meaning = {"x-meaning": field.meaning}
    # An enumeration has its values and no type, for they are of one type.
    if field.values:
        return {"enum": [*field.values], **meaning}
    if field.type == "array":
        items = {"type": "object", **_object_schema(field.fields)}
        return {"type": "array", "items": items, **meaning}
    unit = {} if field.unit is None else {"x-unit": field.unit}
    least = {} if field.minimum is None else {"minimum": field.minimum}
    inner = _object_schema(field.fields) if field.fields else {}
    return {"type": field.type, **least, **unit, **meaning, **inner}
