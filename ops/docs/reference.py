"""The pages of metrics, settings, rules and sources, from the code; and copies for readers.

The copies in schemas/, of views, records and the rule, are for readers only: no program reads them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import SecretStr

from alerting.rules.field_descriptions import FIELD_HELP
from alerting.rules.rule import COSMETIC_FIELDS, EVALUATED_KINDS, RULE_ADAPTER
from runtime.process.files import REPOSITORY
from runtime.process.job import EXIT_FILE
from schemas import loader
from schemas.generated import build_event_schema, render_views
from schemas.loader import SOURCES_VARIABLE, builtin_sources
from schemas.source import Source, read_json_file
from tally.algebra.parts import Histogram, Uniques
from tally.config.settings import Settings, lateness_variable

METRICS_HEADING = f"""# Metrics

Made from `schemas/metrics/` by `python -m ops.docs`; do not edit.

`GET /v1/metrics` lists the same, `GET /v1/metrics/{{metric_id}}` answers
([the HTTP API](api.md)). A ratio is computed from the sums of the whole stretch of time, never as
a mean of ratios; where its denominator is 0 it has no value. A minimum, a maximum or a percentile
of no events has none either, and no events are 0 uniques. A level is that at the end of the
stretch, of all since the store's day began
([persons inside](../people-counters.md#persons-inside)); a stock begins again with a count alone
([what there is](../inventory.md#what-to-ask)).

Uniques are exact below {Uniques.SKETCH_SIZE:,} and an estimate above; a percentile is the lower end
of a bucket, which is exact below {2**Histogram.STEPS}. `error` says how far a value may be off,
beside each metric in words and beside each value of one of these two kinds as a share of it.
"""
_MEANING_FIELDS = ("id", "name", "unit", "formula", "meaning")
_QUERY_FIELDS = ("id", "kind", "families", "by", "grains", "variants")


def metrics_page() -> str:
    """The page as Markdown: the metrics, how each is queried, and the meaning of the columns."""
    shape = json.loads((loader.FOLDER / "metrics.schema.json").read_text("utf-8"))["properties"]
    # In the order of the tables.
    names = dict.fromkeys((*_MEANING_FIELDS, *_QUERY_FIELDS))
    columns = ((f"`{name}`", shape[name]["x-meaning"]) for name in names)
    says = _metric_section("What each says", _MEANING_FIELDS)
    asked = _metric_section("How each is asked", _QUERY_FIELDS)
    meanings = ["## What the columns say\n", table(("column", "meaning"), columns)]
    return "\n".join([METRICS_HEADING, *says, *asked, *meanings])


def _metric_section(title: str, names: Sequence[str]) -> list[str]:
    entries = loader.metrics()
    rows = ([_metric_cell(name, getattr(entry, name)) for name in names] for entry in entries)
    return [f"## {title}\n", table(names, rows)]


def _metric_cell(name: str, value: str | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return codes(value)
    return f"`{value}`" if name in ("id", "unit") else value


SETTINGS_HEADING = """# Settings

Made from `tally/config/settings.py` by `python -m ops.docs`; do not edit.

Each is an environment variable. Where one is not set, `TALLY_HOME/addresses.env` (written by
`tally up`) is looked into, then the default is taken. A value that does not fit ends the process
with one line that names the variable.

"""
# Defaults that depend on the user are described by the rule that makes them.
COMPUTED_DEFAULTS = {
    "cache": "`tally` in `XDG_CACHE_HOME`, else in `~/.cache`",
    "checkpoints": "`data/checkpoints` in `TALLY_HOME`",
}

ALONE_HEADING = """
## Of the environment alone

These are no settings: `addresses.env` is not looked into for them, a process is started with them.

"""
ALONE = {
    # Not a setting: Spark's Python workers need the sources, and no settings reach them.
    SOURCES_VARIABLE: "folders of further sources, each with a source.yaml; `:` between several",
    # Not a setting: invalid settings are reported in this file too.
    EXIT_FILE: "file that takes why a job has ended by itself; its starter sets it",
}


def settings_page() -> str:
    """The page as Markdown, one row per setting, in the order of the class."""
    alone = table(("variable", "meaning"), ((f"`{name}`", ALONE[name]) for name in ALONE))
    settings = table(("variable", "default", "meaning"), _setting_rows())
    return "".join([SETTINGS_HEADING, settings, ALONE_HEADING, alone])


def variables() -> set[str]:
    """All environment variables on the page."""
    return {variable.strip("`") for variable, *_ in _setting_rows()} | {*ALONE}


def _setting_rows() -> Iterator[tuple[str, str, str]]:
    for name, field in Settings.model_fields.items():
        if name == "lateness":
            # One row for each source of the product; further sources have a variable like these.
            for source, content in builtin_sources().items():
                meaning = f"seconds that the speed layer keeps a {source} window open"
                default = f"`{content.lateness_seconds}`"
                yield f"`{lateness_variable(source)}`", default, meaning
            continue
        # A description of several lines is one line of the table.
        meaning = " ".join((field.description or "").split())
        choices = [f"`{choice}`" for choice in get_args(field.annotation) if type(choice) is str]
        if choices:
            meaning += f"; one of {', '.join(choices)}"
        yield (
            f"`TALLY_{name.upper()}`",
            COMPUTED_DEFAULTS.get(name) or _setting_default(field.default),
            meaning,
        )


def _setting_default(value: Any) -> str:
    return "–" if value is None or isinstance(value, SecretStr) else f"`{value}`"


SCHEMA_FILE = Path("schemas") / "rules" / "rule.schema.json"
RULES_HEADING = f"""# Fields of a rule

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
            *(f"`{name}`", FIELD_HELP[name].allowed, _rule_default(shape)),
            *("no" if name in COSMETIC_FIELDS else "yes", FIELD_HELP[name].meaning),
        )
        for name, shape in rule_schema()["properties"].items()
    )
    return RULES_HEADING + table(("field", "wanted", "default", "version", "meaning"), rows)


def rule_schema() -> dict[str, Any]:
    """The JSON Schema of a rule, in its file or as a record of the topic alert-rules."""
    schema = RULE_ADAPTER.json_schema()
    for name, shape in schema["properties"].items():
        words = FIELD_HELP[name]
        shape |= {} if words.unit is None else {"x-unit": words.unit}
        shape |= {"x-meaning": words.meaning}
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, **schema, "title": "Rule of alerts"}


def _rule_default(shape: dict[str, Any]) -> str:
    value = shape.get("default")
    if isinstance(value, bool):
        value = str(value).lower()
    return "–" if value is None or value == "" else f"`{value}`"


Sources = Mapping[str, Source]
SOURCES_HEADING = """# Sources

Made from each source's `source.yaml` by `python -m ops.docs`; do not edit.

"""


def source_copies(found: Sources, root: Path = REPOSITORY) -> dict[Path, str]:
    """The content of each source's files in schemas/, by path."""
    files = {}
    for name, source in found.items():
        files[root / "schemas" / "views" / f"{name}.cql"] = render_views(source)
        schema = json.dumps(build_event_schema(source), indent=2, ensure_ascii=False)
        files[root / "schemas" / "events" / f"{name}.schema.json"] = schema + "\n"
    return files


def sources_page(found: Sources | None = None) -> str:
    """The page as Markdown, by default of the product's own sources. Raises BadSource."""
    shown = builtin_sources() if found is None else found
    return SOURCES_HEADING + "\n".join(map(_source_section, shown.values()))


def _source_section(source: Source) -> str:
    example = json.dumps(read_json_file(source, "example.json"), indent=2, ensure_ascii=False)
    family = source.family
    facts = {
        "what": source.meaning,
        "taken at": f"`POST {source.path}`, or the Kafka topic `{source.raw_topic}`",
        "vendors' own forms at": codes(f"POST {source.path}/{form}" for form in source.formats),
        "canonical topic": f"`{source.name}`",
        "tables": f"`{source.name}_15min`, `batch_{source.name}_15min`",
        "one event is distinguished from another by": source.identity,
        "`happened_at`": source.happened_at,
        "a window is kept open": f"{source.lateness_seconds} seconds",
        "rows of a window, by": codes(family.axes),
        "definition epoch": str(family.epoch),
    }
    parts = ((f"`{part.name}`", part.kind, part.unit, part.meaning) for part in family.parts)
    return (
        f"## {source.name}\n\n{table(('', ''), facts.items())}\n"
        f"{table(('part', 'kind', 'unit', 'meaning'), parts)}\n"
        f"A message:\n\n```json\n{example}\n```\n"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table that ends with a line break; each cell becomes one line."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(_cell(text) for text in line)} |\n" for line in lines)


def codes(names: Iterable[str]) -> str:
    """Names as code, separated by commas, or a dash if there are none."""
    return ", ".join(f"`{name}`" for name in names) or "–"


def _cell(text: str) -> str:
    # A bar starts the next cell, even within code.
    return " ".join(text.split()).replace("|", "\\|")
