"""`python -m tests.unit.runtime.process.small_site HOST:PORT`: a small application on the real
server, with limits of a second."""

import asyncio
import sys
from typing import Any

from fastapi import FastAPI, Request, WebSocket
from fastapi.responses import HTMLResponse, PlainTextResponse

from runtime.http.server import ConnectionLimits, ServerOptions, serve

LIMITS = ConnectionLimits(
    header_seconds=0.5,
    idle_seconds=1,
    body_seconds=1.0,
    request_seconds=2.0,
    connections=40,
    bytes_in_flight=300_000,
    shutdown_seconds=1,
)


def build() -> FastAPI:
    """Echoes the length of a body; a page; a websocket; an answer larger than any socket buffer,
    and one that never comes."""
    app = FastAPI()

    @app.post("/length")
    async def length(request: Request) -> dict[str, int]:
        return {"length": len(await request.body())}

    @app.get("/")
    async def page() -> HTMLResponse:
        return HTMLResponse("<p>hello</p>")

    @app.get("/large")
    async def large() -> PlainTextResponse:
        return PlainTextResponse("x" * 50_000_000)

    @app.get("/never")
    async def never() -> None:
        await asyncio.sleep(3600)

    @app.websocket("/socket")
    async def talk(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("hello")

    return app


def main(arguments: list[str]) -> Any:
    """Serves until told to stop."""
    serve(build(), ServerOptions(arguments[0], "tally.example", limits=LIMITS))


if __name__ == "__main__":
    main(sys.argv[1:])
