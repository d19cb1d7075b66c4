"""Every service, and a rebuild, killed and frozen in turn; and a service that cannot start."""

import socket
from collections.abc import Iterator

import psutil
import pytest
from cassandra.cluster import Session

from ops.stack import catalogue
from ops.stack.processes import has_ended
from tally.connect import cassandra_session
from tests.fault_suite import FaultSuite, Suffering
from tests.faults import strike
from tests.loop import Loop, running_loop, wait_until


class TestEveryService(FaultSuite):
    faults = tuple((service, fault) for service in [*catalogue.SERVICES, "rebuild"] for fault in ("SIGKILL", "SIGSTOP"))

    @pytest.fixture(scope="class")
    @classmethod
    def loop(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
        with running_loop(tmp_path_factory.mktemp("every"), *catalogue.SERVICES) as running:
            yield running

    @pytest.fixture(scope="class")
    @classmethod
    def session(cls, loop: Loop, suffering: Suffering) -> Iterator[Session]:
        with cassandra_session(loop.settings) as opened:
            yield opened

    def test_service_that_cannot_start_ends_failing_with_its_reason_after_its_tries(self, loop: Loop, suffering: Suffering) -> None:
        host, port = loop.settings.gateway.rsplit(":", 1)
        process = psutil.Process(loop.pid("gateway"))
        with socket.socket() as squatter:
            squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            strike(process.pid, "SIGKILL")
            wait_until(lambda: has_ended(process), 10, "the gateway has ended")
            squatter.bind((host, int(port)))
            squatter.listen()
            wait_until(lambda: is_given_up(loop, "gateway"), 480, "the gateway is given up")
            state = loop.status()["gateway"]
        print(state)

        assert (state["state"], state["pid"], bool(state["reason"] and state["since"])) == ("failing", None, True)
        loop.up("gateway")


def is_given_up(loop: Loop, service: str) -> bool:
    """Whether nobody will try to start the service again."""
    state = loop.status()[service]
    return bool(state["state"] == "failing" and state["next_try"] is None)
