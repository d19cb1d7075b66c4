"""The answers to unknown paths: an error of the API below /v1, a line of text elsewhere."""

from http import HTTPStatus

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import PlainTextResponse
from nicegui import app as nicegui_app
from starlette.routing import Match

_TEXT = "There is no such page; / has the numbers, and /openapi.json the addresses of the API."


def add_api_not_found(app: FastAPI) -> None:
    """Answer unknown paths and methods below /v1 with an error of the API.

    Without this route the pages, which take every remaining path, would answer them.
    """

    @app.api_route(
        "/v1/{rest:path}",
        methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
        include_in_schema=False,
    )
    async def unknown(request: Request) -> None:
        """Raises HTTPException: 405 where the path has other methods, else 404."""
        is_other_method = any(
            route.matches(request.scope)[0] is Match.PARTIAL for route in app.routes
        )
        raise HTTPException(
            HTTPStatus.METHOD_NOT_ALLOWED if is_other_method else HTTPStatus.NOT_FOUND
        )


def add_page_not_found() -> None:
    """Answer unknown paths with a text instead of a NiceGUI page, which NiceGUI would keep."""
    nicegui_app.add_exception_handler(HTTPStatus.NOT_FOUND, _no_such_page)


async def _no_such_page(_request: Request, _error: Exception) -> Response:
    return PlainTextResponse(_TEXT, HTTPStatus.NOT_FOUND)
