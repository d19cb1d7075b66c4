from collections.abc import Iterator

import pytest

from runtime.connect import cassandra_session
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tests.support.questions.api_suite import ApiSuite, Ask, asking
from tests.support.serving.serving_example import example
from tests.support.serving.serving_tables import insert_world
from web.api.app import create_app


@pytest.fixture(scope="module")
def module_settings(settings: Settings, keyspace: str) -> Settings:
    return settings.model_copy(update={"keyspace": keyspace})


@pytest.fixture(scope="module")
def ask(module_settings: Settings) -> Iterator[Ask]:
    with cassandra_session(module_settings) as session:
        insert_world(session, example())
    views = ViewReader(module_settings)
    with asking(create_app(module_settings, views)) as function:
        yield function
    views.close()


class TestOnCassandra(ApiSuite):
    """Every test of the suite, over the same rows in real tables."""
