"""Tables of a source's own: rules and the like that are data, in its folder."""

from pathlib import Path
from typing import TypeVar

from schemas.source import BadSource, read_yaml

_Table = TypeVar("_Table")


def table_of(file: Path, kind: type[_Table]) -> _Table:
    """The file, of this type. Raises BadSource that names file, place and what is wrong."""
    table: _Table = read_yaml(file, kind)
    return table


def wrong_table(file: Path, reason: str) -> BadSource:
    """What is raised of a table that is of its type and wrong all the same."""
    return BadSource(f"{file}: {reason}")
