"""Reads the API's event stream as events, over as many connections as it takes."""

import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ops.cli.api import no_answer_error, refusal_error

if TYPE_CHECKING:
    import httpx

# Used until the server sends its own value.
_RETRY_SECONDS = 3.0
# The server sends its position every half minute; after a longer silence the connection is lost.
_SILENCE_SECONDS = 90.0


class StreamEvent(NamedTuple):
    """An event by its name, with its content as text."""

    name: str
    content: str


class EventSource:
    """A subscriber that resumes after its last event when a connection breaks.

    `begin` is the id of the event after which it begins; without one it begins now.
    """

    def __init__(
        self,
        verb: str,
        client: "httpx.Client",
        path: str,
        begin: str = "",
    ) -> None:
        self._verb, self._client, self._path = verb, client, path
        self._last_id, self._retry_seconds = begin, _RETRY_SECONDS

    def events(self, parameters: Mapping[str, str]) -> Generator[StreamEvent]:
        """Yield every event from now on, without an end.

        Raises TallyError when the first connection is refused, or a later one for good.
        """
        import httpx

        while True:
            try:
                yield from self._read_connection(parameters)
            except httpx.TransportError as error:
                if not self._last_id:
                    raise no_answer_error(self._verb, self._client, error) from error
            time.sleep(self._retry_seconds)

    def _read_connection(self, parameters: Mapping[str, str]) -> Iterator[StreamEvent]:
        import httpx

        headers = {"Last-Event-ID": self._last_id} if self._last_id else {}
        stream = self._client.stream(
            "GET", self._path, params=dict(parameters), headers=headers, timeout=_SILENCE_SECONDS
        )
        with stream as answer:
            if answer.status_code == httpx.codes.OK:
                yield from self._read(answer.iter_lines())
            # An unavailable service comes back; any other refusal is permanent.
            elif not self._last_id or answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                answer.read()
                raise refusal_error(self._verb, answer)

    def _read(self, lines: Iterable[str]) -> Iterator[StreamEvent]:
        block: dict[str, list[str]] = {}
        for line in lines:
            if line:
                field, _, value = line.partition(":")
                block.setdefault(field, []).append(value.removeprefix(" "))
                continue
            # Only at the end of a block: one that breaks off halfway does not count.
            self._last_id = block.get("id", [self._last_id])[-1]
            if "retry" in block:
                self._retry_seconds = int(block["retry"][-1]) / 1000
            if "data" in block:
                name = block.get("event", ["message"])[-1]
                yield StreamEvent(name, "\n".join(block["data"]))
            block = {}
