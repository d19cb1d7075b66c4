"""A hundred thousand mutations through the gateway, and as many others straight onto the raw
topic."""

from collections.abc import Iterator

import pytest
from cassandra.cluster import Session

from ops.local.services import catalogue
from runtime.connect import cassandra_session
from tests.support.clients.gateway_client import GatewayClient
from tests.support.odd.odd_suite import OddSuite
from tests.support.stack.loop import Loop, running_loop


class TestHundredThousandMutations(OddSuite):
    mutations = 100_000

    @pytest.fixture(scope="class")
    @classmethod
    def loop(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
        with running_loop(
            tmp_path_factory.mktemp("odd"),
            *(name for name in catalogue.SERVICES if name != "airflow"),
        ) as running:
            yield running

    @pytest.fixture(scope="class")
    @classmethod
    def session(cls, loop: Loop) -> Iterator[Session]:
        with cassandra_session(loop.settings) as opened:
            yield opened

    @pytest.fixture(scope="class")
    @classmethod
    def gateway(cls, loop: Loop) -> Iterator[GatewayClient]:
        client = GatewayClient(loop.settings.gateway)
        yield client
        client.close()
