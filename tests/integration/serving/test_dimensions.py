"""Answers by any dimension, from real tables: as from memory (tests/contract/api)."""

from collections.abc import Iterator

import pytest

from runtime.connect import cassandra_session
from schemas.generated import render_views
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tests.support.questions.api_suite import Ask, asking
from tests.support.questions.dimension_suite import (
    FAMILY,
    SOURCE,
    DimensionSuite,
    know_dimensions,
    of_dimensions,
)
from tests.support.serving.serving_tables import insert_world
from web.api.app import create_app


@pytest.fixture(scope="module")
def ask(settings: Settings, keyspace: str) -> Iterator[Ask]:
    own = settings.model_copy(update={"keyspace": keyspace})
    with cassandra_session(own) as session:
        plain = "\n".join(line.split("--")[0] for line in render_views(SOURCE).splitlines())
        for statement in plain.split(";")[:-1]:
            session.execute(statement)
        insert_world(session, of_dimensions())
    views = ViewReader(own)
    with pytest.MonkeyPatch.context() as patched:
        know_dimensions(patched)
        with asking(create_app(own, views)) as function:
            yield function
    views.close()
    with cassandra_session(own) as session:
        for table in (FAMILY.speed_table, FAMILY.batch_table):
            session.execute(f"DROP TABLE {table}", timeout=600)


class TestOnCassandra(DimensionSuite):
    """Every test of the suite, over the same rows in real tables."""
