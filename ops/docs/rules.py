"""The JSON Schema of a rule and a page of its fields, generated from alerting/rules/rule.py.

The files are for readers only: no program reads them.
"""

import json
from pathlib import Path
from typing import Any

from alerting.rules.field_descriptions import FIELD_HELP
from alerting.rules.rule import COSMETIC_FIELDS, EVALUATED_KINDS, RULE_ADAPTER
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


def rule_copies(root: Path = REPOSITORY) -> dict[Path, str]:
    """The content of the rules' files in schemas/, by path."""
    return {root / SCHEMA_FILE: json.dumps(rule_schema(), indent=2, ensure_ascii=False) + "\n"}


def rules_page() -> str:
    """The page as Markdown, one row per field, in the order of the class."""
    rows = (
        (
            f"`{name}`",
            FIELD_HELP[name].allowed,
            _default(shape),
            "no" if name in COSMETIC_FIELDS else "yes",
            FIELD_HELP[name].meaning,
        )
        for name, shape in rule_schema()["properties"].items()
    )
    return HEADING + table(("field", "wanted", "default", "version", "meaning"), rows)


def rule_schema() -> dict[str, Any]:
    """The JSON Schema of a rule, in its file or as a record of the topic alert-rules."""
    schema = RULE_ADAPTER.json_schema()
    for name, shape in schema["properties"].items():
        words = FIELD_HELP[name]
        shape |= {} if words.unit is None else {"x-unit": words.unit}
        shape |= {"x-meaning": words.meaning}
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, **schema, "title": "Rule of alerts"}


def _default(shape: dict[str, Any]) -> str:
    value = shape.get("default")
    if isinstance(value, bool):
        value = str(value).lower()
    return "–" if value is None or value == "" else f"`{value}`"
