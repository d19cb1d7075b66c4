"""Whatever a client writes into its headers is answered, and never by an error of ours."""

import asyncio
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from runtime.http.guard import Guard

HOST = b"gateway:8080"
ANSWERED, FOREIGN, NOT_OURS = 200, 403, 400


async def answering(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": ANSWERED, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def status_of(method: str, headers: list[tuple[bytes, bytes]], kind: str = "http") -> int:
    """The status of the answer; of a websocket that is closed 403."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope: dict[str, Any] = {"type": kind, "method": method, "path": "/", "headers": headers}
    asyncio.run(Guard(answering, ["gateway"])(scope, receive, send))
    first = sent[0]
    return FOREIGN if first["type"] == "websocket.close" else int(first["status"])


@pytest.mark.parametrize(
    "origin",
    [b"http://[", b"http://[::1", b"http://]", b"http://[gateway]", "http://℀".encode(), b""],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_an_origin_that_cannot_be_read_is_foreign(origin: bytes, kind: str) -> None:
    assert status_of("POST", [(b"host", HOST), (b"origin", origin)], kind) == FOREIGN


def test_the_own_origin_is_answered_and_another_one_is_foreign() -> None:
    asked = [
        status_of("POST", [(b"host", HOST), (b"origin", origin)])
        for origin in (b"http://gateway:8080", b"http://GATEWAY:8080", b"http://elsewhere")
    ]

    assert asked == [ANSWERED, ANSWERED, FOREIGN]


NAMES = st.sampled_from([b"origin", b"host", b"sec-fetch-site", b"sec-fetch-mode", b"referer"])
# What stands in addresses, in any order, and anything else that a header may hold.
PIECES = st.sampled_from(
    [b"http://", b"https:", b"//", b"[", b"]", b"::1", b"@", b":", b"gateway", b"8080", b"%", b"#"]
)
VALUES = st.lists(PIECES | st.binary(max_size=4), max_size=6).map(b"".join) | st.binary(max_size=30)


@given(
    st.sampled_from(["GET", "POST", "DELETE", "OPTIONS"]),
    st.lists(st.tuples(NAMES, VALUES), max_size=5),
)
@example("POST", [(b"origin", b"http://[")])
def test_any_headers_are_answered_or_refused(
    method: str, headers: list[tuple[bytes, bytes]]
) -> None:
    assert status_of(method, headers) in (ANSWERED, FOREIGN, NOT_OURS)
    assert status_of(method, [(b"host", HOST), *headers]) in (ANSWERED, FOREIGN, NOT_OURS)
