"""Every service, and a rebuild, killed and frozen in turn."""

from collections.abc import Iterator

import pytest
from cassandra.cluster import Session

from ops.local.services import catalogue
from runtime.connect import cassandra_session
from tests.support.stack.fault_suite import FaultSuite, Suffering
from tests.support.stack.loop import Loop, running_loop


class TestEveryService(FaultSuite):
    faults = tuple(
        (service, fault)
        for service in [*catalogue.SERVICES, "rebuild"]
        for fault in ("SIGKILL", "SIGSTOP")
    )

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
