from collections.abc import Iterator

import pytest

from alerting.publish import AlertTables, FiledAlert
from runtime.connect import cassandra_session
from serving.storage.views import ViewReader
from tally.alerts.message import encode_alert
from tally.config.settings import Settings
from tests.integration.serving.alerts.test_alert_stream import add_stores
from tests.support.alerts.alert_suite import STORY, AlertSuite
from tests.support.questions.api_suite import Ask, asking
from web.api.app import create_app


@pytest.fixture(scope="module")
def ask(settings: Settings, keyspace: str) -> Iterator[Ask]:
    own = settings.model_copy(update={"keyspace": keyspace})
    add_stores(own)
    with cassandra_session(own) as session:
        AlertTables(session).write_alerts(
            [FiledAlert(one, encode_alert(one).decode()) for one in STORY]
        )
    views = ViewReader(own)
    with asking(create_app(own, views)) as function:
        yield function
    views.close()


class TestOnCassandra(AlertSuite):
    """Every test of the suite, over what the projector files in real tables."""
