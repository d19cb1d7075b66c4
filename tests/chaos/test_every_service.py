"""Every service, and a rebuild, killed and frozen in turn; and a service that cannot start."""

import socket
from collections.abc import Iterator

import psutil
import pytest
from cassandra.cluster import Session

from ops.stack import catalogue
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

    def test_service_that_cannot_start_is_failing_with_its_reason_until_it_can(self, loop: Loop, suffering: Suffering) -> None:
        host, port = loop.settings.gateway.rsplit(":", 1)
        pid = loop.pid("gateway")
        with socket.socket() as squatter:
            squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            strike(pid, "SIGKILL")
            wait_until(
                lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, 10, "the gateway has ended"
            )
            squatter.bind((host, int(port)))
            squatter.listen()
            wait_until(lambda: loop.status()["gateway"]["state"] == "failing", 240, "the gateway is given up for now")
            state = loop.status()["gateway"]
        print(state)

        assert state["reason"] and state["since"] and "next_try" in state
        wait_until(lambda: loop.status()["gateway"]["state"] == "running", 300, "the gateway runs once its port is free")
