"""Whatever the driver raises is views that cannot be reached; and the caller learns nothing of
where they are."""

import asyncio
from typing import Any

import pytest
from cassandra import OperationTimedOut, Unauthorized, UnresolvableContactPoints
from cassandra.cluster import NoHostAvailable
from cassandra.connection import (
    ConnectionBusy,
    ConnectionException,
    ConnectionShutdown,
    ProtocolError,
)
from cassandra.protocol import InternalError

from serving.storage.connection import Connection
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tally.errors import ViewsUnreachable
from tests.support.questions.api_suite import DAY, asking
from web.api.app import create_app

ERRORS = [
    ConnectionException("Connection to 10.1.2.3:9042 was closed"),
    ConnectionShutdown("10.1.2.3"),
    ConnectionBusy("10.1.2.3"),
    ProtocolError("10.1.2.3"),
    InternalError("10.1.2.3"),
    OperationTimedOut("10.1.2.3"),
    UnresolvableContactPoints("10.1.2.3"),
    NoHostAvailable("10.1.2.3", {}),
    Unauthorized("10.1.2.3"),
    ConnectionRefusedError("10.1.2.3"),
]


@pytest.fixture(params=ERRORS, ids=lambda error: type(error).__name__)
def failing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise request.param

    monkeypatch.setattr(Connection, "_ensure_session", fail)


@pytest.mark.usefixtures("failing")
def test_every_failure_of_the_driver_is_unreachable_views() -> None:
    with pytest.raises(ViewsUnreachable, match="cannot be read"):
        asyncio.run(Connection(Settings()).rows("SELECT 1", ()))


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize("path", ["/v1/metrics/revenue", "/v1/stores", "/readyz"])
def test_caller_is_told_to_ask_again_and_no_address(path: str) -> None:
    settings = Settings(cassandra="10.1.2.3:9042", keyspace="hidden")
    with asking(create_app(settings, ViewReader(settings))) as ask:
        answer = ask(path, **(DAY if "metrics" in path else {}))
    assert answer.status_code == 503
    assert not any(
        word in answer.text for word in ("10.1.2.3", "hidden", "9042", "keyspace", "assandra")
    )
