"""CREATE TABLE statements as values."""

import re
from dataclasses import dataclass

from schemas.loader import table_statements

_CREATE = re.compile(
    r"CREATE TABLE IF NOT EXISTS (\w+)\s*\((.*?\))\s*\)\s*(?:WITH (.*))?\Z", re.DOTALL
)
_KEY = re.compile(r"PRIMARY KEY\s*\((.*)\)\s*\Z", re.DOTALL)


@dataclass(frozen=True)
class Table:
    """One table: column name to CQL type in order, partition key, clustering key, options."""

    name: str
    columns: dict[str, str]
    partition_key: tuple[str, ...]
    clustering_key: tuple[str, ...]
    options: str


def tables() -> dict[str, Table]:
    """Every table of schemas/views by name."""
    return {table.name: table for table in map(table_of, table_statements())}


def table_of(statement: str) -> Table:
    """The table that one statement creates.

    Raises ValueError for anything but CREATE TABLE IF NOT EXISTS.
    """
    created = _CREATE.match(statement)
    if created is None:
        raise ValueError(f"not a CREATE TABLE IF NOT EXISTS: {statement[:60]}")
    name, body, options = created.groups()
    *definitions, key = _split(body)
    columns = dict(" ".join(definition.split()).split(" ", 1) for definition in definitions)
    # A table without a key fails here
    partition, *clustering = _split(_KEY.match(key)[1])  # type: ignore[index]
    return Table(
        name=name,
        columns={column.strip('"'): kind for column, kind in columns.items()},
        partition_key=tuple(_split(partition.strip("()"))),
        clustering_key=tuple(clustering),
        options=options or "",
    )


def _split(text: str) -> list[str]:
    """Parts between the commas outside of brackets, stripped."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "(<") - (character in ")>")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
