"""The files of schemas/ as plain Python values; read once, no logic."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, cast

import yaml

FOLDER = Path(__file__).parent


@cache
def event_schema(name: str) -> dict[str, Any]:
    """JSON Schema of one event, e.g. `pos` (raw, as stores send it) or `sales` (canonical)."""
    return cast(
        dict[str, Any], json.loads((FOLDER / "events" / f"{name}.schema.json").read_text("utf-8"))
    )


@cache
def master_schema() -> dict[str, Any]:
    """Columns of the master dataset, in order: name, type (Spark DDL), unit, meaning."""
    return cast(dict[str, Any], json.loads((FOLDER / "master" / "events.json").read_text("utf-8")))


@cache
def topics() -> dict[str, dict[str, str]]:
    """Topic name to its kind (raw, canonical, durable) and meaning.

    A canonical topic has its raw topic too.
    """
    return cast(dict[str, dict[str, str]], _topics_file()["topics"])


@cache
def dead_letter_reasons() -> tuple[str, ...]:
    """Every reason that a dead letter may carry."""
    return tuple(_topics_file()["dead_letter_reasons"])


@cache
def _topics_file() -> dict[str, Any]:
    return cast(dict[str, Any], yaml.safe_load((FOLDER / "topics.yaml").read_text("utf-8")))


@cache
def metrics() -> tuple[dict[str, Any], ...]:
    """The metric catalogue, one entry a file, ordered by id."""
    files = sorted((FOLDER / "metrics").glob("*.yaml"))
    return tuple(yaml.safe_load(file.read_text("utf-8")) for file in files)


@cache
def table_statements() -> tuple[str, ...]:
    """Every CREATE TABLE of schemas/views, without keyspace and without the closing semicolon."""
    texts = [file.read_text("utf-8") for file in sorted((FOLDER / "views").glob("*.cql"))]
    return tuple(
        part.strip()
        for text in texts
        for part in _without_comments(text).split(";")
        if part.strip()
    )


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
    # A comma inside of <…> parts no columns.
    definitions = (" ".join(part.split()) for part in re.split(r",(?![^<]*>)", body))
    return {
        name.strip('"'): kind
        for name, _, kind in (one.partition(" ") for one in definitions if one)
    }


def _without_comments(text: str) -> str:
    return "\n".join(line.split("--")[0] for line in text.splitlines())
