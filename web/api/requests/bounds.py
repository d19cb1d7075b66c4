"""The size limits of a request below /v1, the same for every route."""

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from web.api.requests.refusals import refusal

MAX_BODY_BYTES = 64 * 1024
# The limit counts distinct names, because a list of stores is one name with many values.
MAX_PARAMETERS = 64
_API = "/v1/"


class RequestBounds:
    """Middleware that refuses too many query names (422) and too large bodies (413), below /v1.

    A query is refused before it is parsed, because FastAPI looks up each name among all values.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on if it is within the limits."""
        if scope["type"] != "http" or not scope["path"].startswith(_API):
            await self._app(scope, receive, send)
            return
        count = _count_names(scope["query_string"])
        if count > MAX_PARAMETERS:
            detail = f"query: at most {MAX_PARAMETERS} parameters, got {count:,}; ask for less"
            error = {"field": "query", "message": detail}
            await refusal(scope["path"], 422, detail, [error])(scope, receive, send)
            return
        await self._app(scope, _limit_body(receive), send)


def _count_names(query: bytes) -> int:
    return len({pair.partition(b"=")[0] for pair in query.split(b"&")})


def _limit_body(receive: Receive) -> Receive:
    read = 0

    async def receive_limited() -> Message:
        """The next message. Raises HTTPException 413 once the body is too large."""
        nonlocal read
        message = await receive()
        # Received bytes are counted, because the declared length is only the client's claim.
        read += len(message.get("body", b""))
        if read > MAX_BODY_BYTES:
            raise HTTPException(
                413,
                f"a body has at most {MAX_BODY_BYTES:,} bytes; send less",
                {"Connection": "close"},
            )
        return message

    return receive_limited
