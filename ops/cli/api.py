"""What the verbs ask the API, and what it says when there is no answer."""

import os
from typing import TYPE_CHECKING, Any

from tally.errors import TallyError

if TYPE_CHECKING:
    import httpx

TIMEOUT_SECONDS = 120.0  # what the API may take for one answer


def api_client() -> "httpx.Client":
    """A client of the API of the settings, which the caller closes."""
    # Late, as all that a verb needs: --help waits for none of it.
    import httpx

    from tally.settings import Settings

    api = Settings.load(os.environ).api
    return httpx.Client(base_url=f"http://{api}", timeout=TIMEOUT_SECONDS)


def get(verb: str, client: "httpx.Client", address: Any) -> "httpx.Response":
    """The API's answer, whatever it is. Raises TallyError when there is none."""
    import httpx

    try:
        return client.get(address)
    except httpx.TransportError as error:
        raise unanswered(verb, client, error) from error


def post(verb: str, client: "httpx.Client", address: Any, body: Any) -> "httpx.Response":
    """As get(), for what is asked with a JSON body. Raises TallyError."""
    import httpx

    try:
        return client.post(address, json=body)
    except httpx.TransportError as error:
        raise unanswered(verb, client, error) from error


def refused(verb: str, answer: "httpx.Response") -> TallyError:
    """The API's own words of why it does not answer; the body is read."""
    problem = answer.json() if "json" in answer.headers.get("content-type", "") else {}
    said = problem.get("detail") or answer.text[:200]
    return TallyError(f"{verb}: {answer.status_code} {said}")


def unanswered(verb: str, client: "httpx.Client", error: Exception) -> TallyError:
    """Nobody is there."""
    where = f"no answer from the API at {client.base_url} ({error})"
    return TallyError(f"{verb}: {where}; start it with `tally up api`")
