"""docs/reading-with-cql.md: its statements, as printed, give the API's number."""

import re
from pathlib import Path
from typing import Any

import pytest

from runtime.connect import cassandra_session
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tests.support.questions.api_suite import asking, window
from tests.support.serving.serving_example import DIRTY, SETTLED, example
from tests.support.serving.serving_tables import insert_world
from web.api.app import create_app

PAGE = Path(__file__).parents[3] / "docs" / "reading-with-cql.md"


def statement(name: str, at: str = "10:30", **values: int) -> str:
    """The page's statement of a name, for another quarter hour if wanted, with its named values
    put in."""
    (found,) = re.findall(rf"```cql {name}\n(.*?);\n```", PAGE.read_text("utf-8"), re.DOTALL)
    text = str(found).replace("T10:30:00Z", f"T{at}:00Z")
    for value_name, value in values.items():
        text = text.replace(f":{value_name}", str(value))
    return text


def by_hand(session: Any, at: str) -> tuple[int, str]:
    """Revenue and source by the page's reads and its table."""
    pointer = session.execute(statement("pointer")).one()
    published = {row.generation for row in session.execute(statement("published"))}
    versions = session.execute(statement("batch", at, generation=pointer.generation))
    counting = published | {pointer.generation}
    batch = next((row for row in versions if row.generation in counting), None)
    batch = None if batch is None or batch.events is None else batch
    speed = session.execute(statement("speed", at)).one()
    if speed is None or (
        batch is not None and (batch.epoch, batch.events) >= (speed.epoch, speed.events)
    ):
        return net(batch), "batch"
    given_back = net(batch, "excluded_") if batch is not None and batch.epoch == speed.epoch else 0
    return net(speed) - given_back, "speed"


def net(row: Any, prefix: str = "") -> int:
    return int(
        sum(
            sign * getattr(row, f"{prefix}{part}_minor")
            for part, sign in (("gross", 1), ("returns", -1), ("voids", -1))
        )
    )


@pytest.fixture(scope="module")
def module_settings(settings: Settings, keyspace: str) -> Settings:
    own = settings.model_copy(update={"keyspace": keyspace})
    with cassandra_session(own) as session:
        insert_world(session, example())
    return own


@pytest.mark.parametrize("at", ["10:00", "10:15", "10:30", "11:00"])
def test_page_gives_the_apis_number(module_settings: Settings, at: str) -> None:
    views = ViewReader(module_settings)
    with (
        cassandra_session(module_settings) as session,
        asking(create_app(module_settings, views)) as ask,
    ):
        row = window(ask, "revenue", f"{SETTLED}T{at}")
        assert by_hand(session, at) == (row["value"], row["source"])
    views.close()


def test_page_tells_which_currencies_a_store_has_taken(module_settings: Settings) -> None:
    with cassandra_session(module_settings) as session:
        found = [tuple(map(str, row)) for row in session.execute(statement("axis"))]
    assert found == [("USD", SETTLED, DIRTY)]


def test_page_tells_a_dirty_day(module_settings: Settings) -> None:
    with cassandra_session(module_settings) as session:
        master = {row.partition: row.until for row in session.execute(statement("master"))}
        pointer = session.execute(statement("pointer")).one()
    assert (master, pointer.pinned[1]) == ({1: 100}, 100)
