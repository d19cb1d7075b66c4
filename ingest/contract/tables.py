"""Reads a source's own tables: its rules and other data files, in its folder."""

from pathlib import Path
from typing import TypeVar

from schemas.source import BadSource, read_yaml

_Table = TypeVar("_Table")


def read_table(file: Path, kind: type[_Table]) -> _Table:
    """The file as this type. Raises BadSource that names file, place and what is wrong."""
    table: _Table = read_yaml(file, kind)
    return table


def wrong_table(file: Path, reason: str) -> BadSource:
    """The error to raise for a table that fits its type but is wrong all the same."""
    return BadSource(f"{file}: {reason}")
