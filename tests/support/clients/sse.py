"""A client of an event stream, by the letter of the standard (WHATWG HTML 9.2.6)."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

SECONDS = 600.0


@dataclass
class EventSource:
    """One subscriber: `last_id` outlives its connections."""

    url: str
    parameters: dict[str, str] = field(default_factory=dict)
    last_id: str = ""

    @contextmanager
    def connected(self) -> Iterator[Iterator[tuple[str, Any]]]:
        """A connection's events: name and content; ("id", text) for a block that is an id alone."""
        headers = {"Last-Event-ID": self.last_id} if self.last_id else {}
        with (
            httpx.Client(timeout=SECONDS) as client,
            client.stream("GET", self.url, params=self.parameters, headers=headers) as answer,
        ):
            assert answer.status_code == 200, answer.read()
            assert answer.headers["content-type"].startswith("text/event-stream")
            yield self._events(answer.iter_lines())

    def _events(self, lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
        name, data, last_id = "message", list[str](), None
        deadline = time.monotonic() + SECONDS
        for line in lines:
            # Its place keeps a connection alive on which nothing comes any more.
            assert time.monotonic() < deadline, "what was waited for has not come"
            said, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if said == "id":
                last_id = value
            elif said == "event":
                name = value
            elif said == "data":
                data.append(value)
            elif not line:
                # Taken at the end of the block: half of one that breaks off counts for nothing.
                self.last_id = self.last_id if last_id is None else last_id
                if data:
                    yield name, json.loads("\n".join(data))
                elif last_id is not None:
                    yield "id", last_id
                name, data, last_id = "message", [], None
