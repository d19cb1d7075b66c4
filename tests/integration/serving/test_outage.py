"""While Cassandra cannot be reached every answer is 503, never a number; afterwards the API
answers again by itself."""

from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from runtime.connect import cassandra_session
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tests.integration.serving.cut import Wire
from tests.support.questions.api_suite import DAY, Ask, asking
from tests.support.serving.serving_example import example
from tests.support.serving.serving_tables import insert_world
from web.api.app import create_app

PATH = "/v1/metrics/revenue"


@retry(
    stop=stop_after_delay(600), wait=wait_fixed(0.2), retry=retry_if_exception_type(AssertionError)
)
def becomes(ask: Ask, status: int) -> None:
    assert ask(PATH, **DAY).status_code == status


def test_outage_is_503_and_ends_by_itself(own_settings: Settings) -> None:
    with cassandra_session(own_settings) as session:
        insert_world(session, example())
    wire = Wire(own_settings.cassandra)
    views = ViewReader(own_settings.model_copy(update={"cassandra": wire.address}))
    with asking(create_app(own_settings, views)) as ask:
        before = ask(PATH, **DAY).json()
        wire.cut()
        assert [
            (ask(PATH, **DAY).status_code, ask("/readyz").status_code, ask("/healthz").status_code)
            for _ in range(3)
        ] == [(503, 503, 200)] * 3
        wire.mend()
        becomes(ask, 200)
        assert ask(PATH, **DAY).json() == before
    views.close()
    wire.cut()
