"""The files of schemas/ and of the sources' folders as plain Python values; read once."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from schemas.generated import build_event_schema, build_topics, render_views
from schemas.metric import AnyMetric, LevelShape, ReportShape, StockShape, load_metrics
from schemas.source import (
    DESCRIPTOR,
    BadSource,
    Source,
    index_by_name,
    read_json_file,
    read_source,
    read_yaml,
)

FOLDER = Path(__file__).parent
# The variable with folders of further sources, each with a source.yaml.
SOURCES_VARIABLE = "TALLY_SOURCES"


@cache
def sources() -> Mapping[str, Source]:
    """Every source by name: those of ingest/sources, then those of the folders in TALLY_SOURCES.

    They are read once per process, from the environment: families, tables and topics follow from
    them, also in places that no settings reach, as Spark's Python workers. Raises BadSource.
    """
    further = os.environ.get(SOURCES_VARIABLE, "").split(os.pathsep)
    outside = [Path(folder) for folder in further if folder]
    return read_sources([*_builtin_folders(), *outside])


@cache
def builtin_sources() -> Mapping[str, Source]:
    """The sources of ingest/sources alone, independent of the environment."""
    return read_sources(_builtin_folders())


def read_sources(folders: Iterable[Path]) -> dict[str, Source]:
    """The sources of these folders by name, in order. Raises BadSource."""
    # A source must not take a topic that the system writes for itself.
    taken = dict.fromkeys(_read_topics_file()["topics"], "schemas/topics.yaml")
    return index_by_name(map(read_source, folders), taken)


def _builtin_folders() -> list[Path]:
    own = FOLDER.parent / "ingest" / "sources"
    found = sorted(file.parent for file in own.glob(f"*/{DESCRIPTOR}"))
    if not found:
        # An installation without sources would count nothing, and report it nowhere.
        raise BadSource(f"{own}: no folder with a {DESCRIPTOR}")
    return found


@cache
def event_schema(name: str) -> dict[str, Any]:
    """JSON Schema of a source's canonical record, e.g. `sales`."""
    return build_event_schema(sources()[name])


@cache
def message_schema(name: str) -> dict[str, Any]:
    """JSON Schema of a source's message as senders see it. Raises BadSource."""
    return read_json_file(sources()[name], "message.schema.json")


@cache
def master_schema() -> dict[str, Any]:
    """Columns of the master dataset, in order: name, type (Spark DDL), unit, meaning."""
    return _read_json("master/events.json")


@cache
def topics() -> dict[str, dict[str, str]]:
    """Topic name to its kind and meaning; the canonical topic of a source has its raw topic too.

    Kinds are raw, canonical, durable, letters, compacted, chronicle, alerts and clock:
    ops/provision.py.
    """
    found: dict[str, dict[str, str]] = {}
    for source in sources().values():
        found |= build_topics(source)
    return {**found, **_read_topics_file()["topics"]}


@cache
def record_schema(topic: str) -> dict[str, Any]:
    """JSON Schema of records (key, value, headers) of a source-less topic, if it has one."""
    return _read_json(f"topics/{topic}.schema.json")


def _read_json(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / name).read_text("utf-8"))
    return content


@cache
def dead_letter_reasons() -> tuple[str, ...]:
    """Every reason that a dead letter may carry."""
    return tuple(dead_letter_fixes())


def dead_letter_fixes() -> Mapping[str, str]:
    """The action for each reason, which the sender or the operator can take."""
    fixes: Mapping[str, str] = _read_topics_file()["dead_letter_reasons"]
    return fixes


@cache
def _read_topics_file() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((FOLDER / "topics.yaml").read_text("utf-8"))
    return content


@cache
def metrics() -> tuple[AnyMetric, ...]:
    """The metric catalogue, one entry for each file, ordered by id.

    The files are in schemas/metrics, and in a source's own folder `metrics`. Raises BadSource.
    """
    folders = [FOLDER, *(source.folder for source in sources().values())]
    files = [file for folder in folders for file in sorted((folder / "metrics").glob("*.yaml"))]
    return load_metrics(files, sources(), metric_units())


@cache
def reports() -> Mapping[str, ReportShape]:
    """Every report by id. Raises BadSource for one of a metric that is unknown or a level."""
    # A level belongs to an instant: its days can neither be joined nor compared.
    known = {entry.id for entry in metrics() if not isinstance(entry, LevelShape | StockShape)}
    found: dict[str, ReportShape] = {}
    for file in sorted((FOLDER / "reports").glob("*.yaml")):
        report = read_yaml(file, ReportShape)
        if report.metric not in known or report.id != file.stem:
            wrong = f"{report.metric!r} is no metric of days, or id: {report.id!r} no file's"
            raise BadSource(f"{file}: metric: {wrong}")
        found[report.id] = report
    return found


@cache
def metric_units() -> frozenset[str]:
    """Units that a metric may have: those of the catalogue's schema and of the sources' parts."""
    known = _read_json("metrics.schema.json")["properties"]["unit"]["examples"]
    parts = (part for source in sources().values() for part in source.family.parts)
    return frozenset((*known, *(part.unit for part in parts)))


@cache
def retention() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """How long each table, kind of topic and folder is kept: retention.yaml."""
    content: dict[str, Any] = yaml.safe_load((FOLDER / "retention.yaml").read_text("utf-8"))
    return content


@cache
def table_statements() -> tuple[str, ...]:
    """Every CREATE TABLE, without keyspace and without the closing semicolon.

    Those of the sources' views are generated: their files in schemas/views are copies for people.
    """
    files = sorted((FOLDER / "views").glob("*.cql"))
    texts = [file.read_text("utf-8") for file in files if file.stem not in builtin_sources()]
    views = map(render_views, sources().values())
    return tuple(part for text in [*texts, *views] for part in split_statements(text))


def split_statements(text: str) -> list[str]:
    """The statements of a CQL file, without comments and semicolons."""
    parts = re.sub("--.*", "", text).split(";")
    return [part.strip() for part in parts if part.strip()]


def table_name(statement: str) -> str:
    """Name of the table that a statement creates."""
    return statement.partition("(")[0].split()[-1]


def table_columns(statement: str) -> dict[str, str]:
    """Column name to CQL type of the table that a statement creates, in order.

    >>> columns = 'a text, "b" frozen<map<int, bigint>>, PRIMARY KEY (a)'
    >>> table_columns(f"CREATE TABLE IF NOT EXISTS t ({columns})")
    {'a': 'text', 'b': 'frozen<map<int, bigint>>'}
    """
    body = statement.partition("(")[2].rpartition("PRIMARY KEY")[0]
    # A comma inside <…> separates no columns.
    definitions = (" ".join(part.split()) for part in re.split(r",(?![^<]*>)", body))
    return {
        name.strip('"'): kind
        for name, _, kind in (definition.partition(" ") for definition in definitions if definition)
    }


def table_key(statement: str) -> tuple[str, ...]:
    """The columns of the primary key of the table that a statement creates, in order.

    >>> table_key("CREATE TABLE IF NOT EXISTS t (a int, b int, c int, PRIMARY KEY ((a, b), c))")
    ('a', 'b', 'c')
    """
    # Up to the bracket that ends the columns, which options follow.
    key = statement.partition("PRIMARY KEY")[2].partition(" WITH ")[0]
    return tuple(re.findall(r"\w+", key))
