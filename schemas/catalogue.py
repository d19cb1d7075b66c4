"""The metric catalogue's files, read, and checked against the sources that they speak of."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from schemas.source import BadSource, Source


def metrics_of(
    files: Iterable[Path], sources: Mapping[str, Source], units: Collection[str]
) -> tuple[dict[str, Any], ...]:
    """One entry a file, ordered by id. Raises BadSource that names file and field."""
    # The file's name is the id: what is read by it needs no look into the others.
    by_id: dict[str, tuple[Path, dict[str, Any]]] = {}
    for file in files:
        entry = _read(file)
        if file.stem in by_id:
            raise BadSource(f"{file}: id: {file.stem!r} is the metric of {by_id[file.stem][0]}")
        for field, wrong in _wrong(file, entry, sources, units):
            raise BadSource(f"{file}: {field}: {wrong}")
        by_id[file.stem] = (file, entry)
    return tuple(entry for _, (_, entry) in sorted(by_id.items()))


def _read(file: Path) -> dict[str, Any]:
    try:
        entry = yaml.safe_load(file.read_text("utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadSource(f"{file}: is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(entry, dict):
        raise BadSource(f"{file}: is no YAML object")
    return entry


def _wrong(
    file: Path,
    entry: Mapping[str, Any],
    sources: Mapping[str, Source],
    units: Collection[str],
) -> Iterable[tuple[str, str]]:
    if missing := [name for name in ("id", "unit", "families", "value") if name not in entry]:
        yield missing[0], "the field is missing"
        return
    if entry["id"] != file.stem:
        yield "id", f"{entry['id']!r} is not the name of the file"
    if entry["unit"] not in units:
        yield "unit", f"{entry['unit']!r} is none of {', '.join(sorted(units))}"
    # A family that nobody has would only be found by the first question for the metric.
    if unknown := [name for name in entry["families"] if name not in sources]:
        yield "families", f"there is no source {unknown[0]!r}"
        return
    shapes = [sources[name].family for name in entry["families"]]
    parts = {part.name for shape in shapes for part in shape.parts}
    # A ratio is made of two other metrics, which are looked at by themselves.
    for name in entry["value"].get("sum", ()):
        if name not in parts:
            yield "value.sum", f"{name!r} is no part of {', '.join(entry['families'])}"
