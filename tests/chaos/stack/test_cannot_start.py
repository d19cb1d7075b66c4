"""A service that cannot start: tried again and again, then given up with its reason for all to
see."""

import socket
from collections.abc import Iterator
from contextlib import closing

import psutil
import pytest

from tests.support.stack.faults import strike
from tests.support.stack.loop import Loop, running_loop, wait_until


@pytest.fixture
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    with running_loop(tmp_path_factory.mktemp("cannot"), "kafka", "gateway") as running:
        yield running


def test_service_that_cannot_start_ends_failing_with_its_reason_after_its_tries(loop: Loop) -> None:
    host, port = loop.settings.gateway.rsplit(":", 1)
    process = psutil.Process(loop.pid("gateway"))
    with closing(socket.socket()) as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        strike(process.pid, "SIGKILL")
        wait_until(lambda: is_bound(squatter, host, int(port)), 10, "the gateway's port is free")
        squatter.listen()
        wait_until(lambda: is_given_up(loop, "gateway"), 480, "the gateway is given up")
        given_up = loop.status()["gateway"]
    print(given_up)

    loop.up("gateway")

    assert (given_up["state"], given_up["pid"], bool(given_up["reason"] and given_up["since"])) == (
        "failing",
        None,
        True,
    )
    assert loop.status()["gateway"]["state"] == "running"


def is_bound(one: socket.socket, host: str, port: int) -> bool:
    """Whether the socket has the address now: a killed process holds it for some milliseconds
    more."""
    try:
        one.bind((host, port))
    except OSError:
        return False
    return True


def is_given_up(loop: Loop, service: str) -> bool:
    """Whether nobody will try to start the service again."""
    state = loop.status()[service]
    return bool(state["state"] == "failing" and state["next_try"] is None)
