"""Sends the verbs' requests to the API, and turns its failures into errors."""

import os
from typing import TYPE_CHECKING, Any

from tally.errors import TallyError

if TYPE_CHECKING:
    import httpx

TIMEOUT_SECONDS = 120.0  # what the API may take for one answer


def api_client() -> "httpx.Client":
    """A client of the API of the settings, which the caller closes."""
    # Imported late, like everything that a verb needs, so that --help is quick.
    import httpx

    from tally.config.settings import Settings

    api = Settings.load(os.environ).api
    return httpx.Client(base_url=f"http://{api}", timeout=TIMEOUT_SECONDS)


def get(verb: str, client: "httpx.Client", address: Any) -> "httpx.Response":
    """The API's answer, with any status. Raises TallyError when there is none."""
    import httpx

    try:
        return client.get(address)
    except httpx.TransportError as error:
        raise no_answer_error(verb, client, error) from error


def post(verb: str, client: "httpx.Client", address: Any, body: Any) -> "httpx.Response":
    """The API's answer to a request with a JSON body, as get() has it. Raises TallyError."""
    import httpx

    try:
        return client.post(address, json=body)
    except httpx.TransportError as error:
        raise no_answer_error(verb, client, error) from error


def refusal_error(verb: str, answer: "httpx.Response") -> TallyError:
    """The error with the API's own reason for a refusal; the answer's body was read before."""
    problem = answer.json() if "json" in answer.headers.get("content-type", "") else {}
    detail = problem.get("detail") or answer.text[:200]
    return TallyError(f"{verb}: {answer.status_code} {detail}")


def no_answer_error(verb: str, client: "httpx.Client", error: Exception) -> TallyError:
    """The error for an API that does not answer at all."""
    where = f"no answer from the API at {client.base_url} ({error})"
    return TallyError(f"{verb}: {where}; start it with `tally up api`")
