"""The API is ready when each table that answers come from can be read."""

import asyncio
import re

import pytest

from runtime.registry.sources import FAMILIES
from serving.storage import tables
from serving.storage.connection import Connection, CqlRow
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tally.errors import ViewsUnreachable


def table_of(statement: str) -> str:
    found = re.search(r"FROM (\w+)", statement)
    assert found is not None
    return found[1]


def named_in_statements() -> set[str]:
    """The tables of every statement of the module."""
    texts = [text for text in vars(tables).values() if str(text).startswith("SELECT ")]
    of_families = {name for one in FAMILIES.values() for name in (one.speed_table, one.batch_table)}
    return {table_of(text) for text in texts} | of_families


@pytest.mark.parametrize("lacking", sorted(named_in_statements()))
def test_views_that_lack_one_table_are_not_ready(
    lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def rows(
        _: Connection, statement: str, values: object, is_serial: bool = False
    ) -> list[CqlRow]:
        if table_of(statement) == lacking:
            raise ViewsUnreachable("no such table")
        return []

    monkeypatch.setattr(Connection, "rows", rows)

    with pytest.raises(ViewsUnreachable, match="no such table"):
        asyncio.run(ViewReader(Settings()).check())
