"""Files for readers, generated from the sources' descriptors.

They are one page of all sources, and for each source the CQL of its views and the JSON Schema of
its canonical record. No program reads these files.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from ops.docs.markdown import codes, table
from runtime.process.repository import REPOSITORY
from schemas.generated import build_event_schema, render_views
from schemas.loader import builtin_sources
from schemas.source import Source, read_json_file

Sources = Mapping[str, Source]
HEADING = """# Sources

Made from each source's `source.yaml` by `python -m ops.docs`; do not edit.

"""


def copies(found: Sources, root: Path = REPOSITORY) -> dict[Path, str]:
    """The content of each source's files in schemas/, by path."""
    files = {}
    for name, source in found.items():
        files[root / "schemas" / "views" / f"{name}.cql"] = render_views(source)
        schema = json.dumps(build_event_schema(source), indent=2, ensure_ascii=False)
        files[root / "schemas" / "events" / f"{name}.schema.json"] = schema + "\n"
    return files


def sources_page(found: Sources | None = None) -> str:
    """The page as Markdown, one section per source, by default for the product's own sources.

    Raises BadSource for a wrong descriptor.
    """
    shown = builtin_sources() if found is None else found
    return HEADING + "\n".join(map(_section, shown.values()))


def _section(source: Source) -> str:
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
