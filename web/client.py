"""A client of Tally's HTTP API: questions, pages, refusals as one error, the stream of alerts."""

import time
from collections.abc import Generator, Iterator, Mapping
from typing import Any, NamedTuple, Self

import httpx
from httpx_sse import EventSource, ServerSentEvent

from tally.errors import ApiError

# What the API may take for one answer.
ANSWER_SECONDS = 120.0
# Used until the server sends its own value.
_RETRY_SECONDS = 3.0
# The server sends its position every half minute; after a longer silence the connection is lost.
_SILENCE_SECONDS = 90.0

# The fields of an answer, and the parameters of a question, each by name.
ApiAnswer = dict[str, Any]
ApiParameters = Mapping[str, str]


class StreamEvent(NamedTuple):
    """An event by its name, with its content as text, and the id after which others follow."""

    name: str
    content: str
    id: str


class ApiClient:
    """The API at an address `host:port`; its errors begin with the name of the caller."""

    def __init__(self, address: str, caller: str, timeout: float = ANSWER_SECONDS) -> None:
        self._caller = caller
        self._http = httpx.Client(base_url=f"http://{address}", timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, parameters: ApiParameters | None = None) -> ApiAnswer:
        """The answer by field. Raises ApiError."""
        return self._ask(_address(path, parameters), None)

    def pages(
        self, path: str, parameters: ApiParameters | None = None, body: Any = None
    ) -> Iterator[ApiAnswer]:
        """Yield the answer's pages; with a body each is asked for by POST. Raises ApiError."""
        address: str | None = _address(path, parameters)
        while address:
            page = self._ask(address, body)
            yield page
            # The address of the next page includes all parameters of the question.
            address = page["next"]

    def events(
        self, path: str, parameters: ApiParameters | None = None, begin: str = ""
    ) -> Generator[StreamEvent]:
        """Yield a stream's events without an end, over as many connections as it takes.

        `begin` is the id of the event after which it begins; without one it begins now.

        Raises ApiError when the first connection is refused, or a later one for good.
        """
        last_id, retry_seconds = begin, _RETRY_SECONDS
        while True:
            try:
                for event in self._read_connection(_address(path, parameters), last_id):
                    last_id = event.id or last_id
                    if event.retry is not None:
                        retry_seconds = event.retry / 1000
                    # A block without content gives the position alone.
                    if event.data:
                        yield StreamEvent(event.event, event.data, last_id)
            except httpx.TransportError as error:
                if not last_id:
                    raise self._no_answer(error) from error
            time.sleep(retry_seconds)

    def _ask(self, address: str, body: Any) -> ApiAnswer:
        method = "GET" if body is None else "POST"
        try:
            answer = self._http.request(method, address, json=body)
        except httpx.TransportError as error:
            raise self._no_answer(error) from error
        if not answer.is_success:
            raise self._refusal(answer)
        return dict(answer.json())

    def _read_connection(self, address: str, last_id: str) -> Iterator[ServerSentEvent]:
        headers = {"Last-Event-ID": last_id} if last_id else {}
        with self._http.stream("GET", address, headers=headers, timeout=_SILENCE_SECONDS) as answer:
            if answer.status_code == httpx.codes.OK:
                yield from EventSource(answer).iter_sse()
            # An unavailable service comes back; any other refusal is permanent.
            elif not last_id or answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                answer.read()
                raise self._refusal(answer)

    def _refusal(self, answer: httpx.Response) -> ApiError:
        problem = answer.json() if "json" in answer.headers.get("content-type", "") else {}
        reason = problem.get("detail") or answer.text[:200]
        return ApiError(self._caller, str(answer.url), reason, answer.status_code)

    def _no_answer(self, error: httpx.TransportError) -> ApiError:
        url = str(self._http.base_url)
        reason = f"no answer from the API at {url} ({error}); start it with `tally up api`"
        return ApiError(self._caller, url, reason)


def _address(path: str, parameters: ApiParameters | None) -> str:
    return str(httpx.URL(path, params={**parameters})) if parameters else path
