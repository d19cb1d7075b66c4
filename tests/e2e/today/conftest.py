"""One running loop of the product's sources and of one that it has never heard of."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cassandra.cluster import Session

from ops.local.stack import catalogue
from runtime.connect import cassandra_session
from tests.support.gateway_client import GatewayClient
from tests.support.loop import Loop, running_loop

# Everything but the scheduler: a test says itself when it wants a rebuild.
SERVICES = [name for name in catalogue.SERVICES if name != "airflow"]
ELEVENTH = Path(__file__).parents[1] / "eleventh"


@pytest.fixture(scope="package")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    overrides = {"TALLY_SOURCES": str(ELEVENTH)}
    home = tmp_path_factory.mktemp("today")
    with running_loop(home, *SERVICES, overrides=overrides) as running:
        yield running


@pytest.fixture(scope="package")
def session(loop: Loop) -> Iterator[Session]:
    with cassandra_session(loop.settings) as opened:
        yield opened


@pytest.fixture(scope="package")
def gateway(loop: Loop) -> Iterator[GatewayClient]:
    client = GatewayClient(loop.settings.gateway)
    yield client
    client.close()
