"""The JSON Schema of a rule and a page of its fields, generated from alerting/rules/rule.py.

The files are for readers only: no program reads them.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from alerting.rules.field_descriptions import FIELD_HELP
from alerting.rules.rule import (
    COSMETIC_FIELDS,
    DECIMAL_PATTERN,
    EVALUATED_KINDS,
    AgainstBaseline,
    Condition,
    Rule,
    Threshold,
)
from ops.docs.markdown import table
from runtime.process.repository import REPOSITORY

SCHEMA_FILE = Path("schemas") / "rules" / "rule.schema.json"
HEADING = f"""# Fields of a rule

Made from `alerting/rules/rule.py` by `python -m ops.docs`; do not edit. How rules work:
[alerts](../alerts.md#rules).

A change of a field with a `yes` makes a new version of the rule; one of the others says how its
alerts are published, and holds at once. Every field but `rule_id` may be left out. Judged today:
{", ".join(EVALUATED_KINDS)} rules.

"""
# The two forms of a condition, which the type combines in a union.
_SHAPES = (Threshold, AgainstBaseline)


def rule_copies(root: Path = REPOSITORY) -> dict[Path, str]:
    """The content of the rules' files in schemas/, by path."""
    return {root / SCHEMA_FILE: json.dumps(rule_schema(), indent=2, ensure_ascii=False) + "\n"}


def rules_page() -> str:
    """The page as Markdown, one row per field, in the order of the class."""
    rows = (
        (
            f"`{field.encode_name}`",
            FIELD_HELP[field.encode_name].allowed,
            _default(field),
            "no" if field.encode_name in COSMETIC_FIELDS else "yes",
            FIELD_HELP[field.encode_name].meaning,
        )
        for field in structs.fields(Rule)
    )
    return HEADING + table(("field", "wanted", "default", "version", "meaning"), rows)


def rule_schema() -> dict[str, Any]:
    """The JSON Schema of a rule, in its file or as a record of the topic alert-rules."""
    fields = structs.fields(Rule)
    # msgspec cannot describe a union of two structs without a tag.
    plain = [field.type for field in fields if not _is_condition(field.type)]
    _, inner = msgspec.json.schema_components([*_SHAPES, *plain], ref_template="#/$defs/{name}")
    # A number as people write it, or a string as a record has it.
    inner["Threshold"]["properties"]["value"] = {
        "type": ["number", "string"],
        "pattern": f"^{DECIMAL_PATTERN}$",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Rule of alerts",
        "type": "object",
        "additionalProperties": False,
        "required": [field.encode_name for field in fields if field.required],
        "properties": {field.encode_name: _field_schema(field) for field in fields},
        "$defs": {name: _portable(shape) for name, shape in sorted(inner.items())},
    }


def _field_schema(field: structs.FieldInfo) -> dict[str, Any]:
    words = FIELD_HELP[field.encode_name]
    unit = {} if words.unit is None else {"x-unit": words.unit}
    shape = _condition_shape() if _is_condition(field.type) else _shape(field.type)
    default = {} if field.required else {"default": _plain_default(field)}
    return {**shape, **default, **unit, "x-meaning": words.meaning}


def _shape(kind: Any) -> dict[str, Any]:
    (shape,), _ = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    found: dict[str, Any] = _portable(shape)
    return found


def _condition_shape() -> dict[str, Any]:
    refs: list[dict[str, Any]] = [{"$ref": f"#/$defs/{form.__name__}"} for form in _SHAPES]
    return {"anyOf": [*refs, {"type": "null"}]}


def _is_condition(kind: Any) -> bool:
    return bool(kind == Condition | None)


def _plain_default(field: structs.FieldInfo) -> Any:
    if field.default is msgspec.NODEFAULT:
        # A mutable default has a factory, so that each rule gets its own.
        return msgspec.to_builtins(field.default_factory())
    return [*field.default] if isinstance(field.default, tuple) else field.default


def _default(field: structs.FieldInfo) -> str:
    if field.required:
        return "–"
    value = _plain_default(field)
    if isinstance(value, bool):
        value = str(value).lower()
    return "–" if value is None or value == "" else f"`{value}`"


def _portable(shape: Any) -> Any:
    """The schema with patterns in the syntax of JSON Schema, where `$` means Python's `\\Z`."""
    if isinstance(shape, dict):
        found = {name: _portable(value) for name, value in shape.items() if name != "description"}
        if isinstance(found.get("pattern"), str):
            found["pattern"] = found["pattern"].replace(r"\Z", "$")
        return found
    return [_portable(item) for item in shape] if isinstance(shape, list) else shape
