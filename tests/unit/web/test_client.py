"""The client of the API against a stand-in whose answers the test writes."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from tally.errors import ApiError
from web.client import ApiClient, StreamEvent

Answer = tuple[int, str, str]


class StandIn(BaseHTTPRequestHandler):
    """Gives the answers in turn, and notes what each request was."""

    answers: ClassVar[list[Answer]] = []
    requests: ClassVar[list[tuple[str, str, Any]]] = []

    def do_GET(self) -> None:
        length = int(self.headers["Content-Length"] or 0)
        body = json.loads(self.rfile.read(length)) if length else self.headers["Last-Event-ID"]
        StandIn.requests.append((self.command, self.path, body))
        status, media_type, text = StandIn.answers.pop(0)
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@pytest.fixture
def api() -> Iterator[ApiClient]:
    StandIn.answers.clear()
    StandIn.requests.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), StandIn) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with ApiClient(f"127.0.0.1:{server.server_address[1]}", "test") as client:
            yield client
        server.shutdown()


def answer(status: int, **fields: Any) -> Answer:
    media_type = "application/json" if status == 200 else "application/problem+json"
    return status, media_type, json.dumps(fields)


def stream(*blocks: str) -> Answer:
    return 200, "text/event-stream", "".join(blocks)


def test_a_question_has_its_parameters_and_its_fields(api: ApiClient) -> None:
    StandIn.answers.append(answer(200, rows=[1]))

    assert api.get("/v1/x%2Fy", {"from": "2026-03-02T10:00:00Z", "by": "a,b"}) == {"rows": [1]}
    assert StandIn.requests == [("GET", "/v1/x%2Fy?from=2026-03-02T10%3A00%3A00Z&by=a%2Cb", None)]


def test_pages_are_asked_for_one_after_the_other_with_the_same_body(api: ApiClient) -> None:
    following = "/v1/x?after=1"
    StandIn.answers += [answer(200, rows=[1], next=following), answer(200, rows=[2], next=None)]

    pages = api.pages("/v1/x", body={"from": "then"})

    assert next(pages)["rows"] == [1] and len(StandIn.requests) == 1
    assert [page["rows"] for page in pages] == [[2]]
    paths = [("POST", path, {"from": "then"}) for path in ("/v1/x", following)]
    assert StandIn.requests == paths


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (answer(404, detail="there is no x"), "there is no x"),
        ((502, "text/html", "<h1>bad gateway</h1>"), "<h1>bad gateway</h1>"),
    ],
)
def test_a_refusal_is_one_error_with_the_problem_s_text(
    api: ApiClient, refusal: Answer, reason: str
) -> None:
    StandIn.answers.append(refusal)

    with pytest.raises(ApiError) as raised:
        api.get("/v1/x")

    error, status = raised.value, refusal[0]
    assert (str(error), error.status, error.reason) == (f"test: {status} {reason}", status, reason)
    assert error.url.endswith("/v1/x")


def test_an_api_that_is_not_there_is_an_error_without_a_status() -> None:
    with ApiClient("127.0.0.1:9", "test") as api, pytest.raises(ApiError) as raised:
        api.get("/v1/x")

    assert raised.value.status is None
    assert str(raised.value).startswith("test: no answer from the API at http://127.0.0.1:9 (")


def test_a_stream_resumes_after_its_last_whole_block(api: ApiClient) -> None:
    first = (
        "retry: 1\nid: 1\n\n",
        "event: alert\nid: 2\ndata: a\ndata: b\n\n",
        "id: 3\ndata: lost\n",
    )
    StandIn.answers += [stream(*first), answer(503), stream(": remark\n\n", "id: 4\ndata: c\n\n")]

    events = api.events("/v1/stream", {"store": "all"})

    assert [next(events) for _ in range(2)] == [
        StreamEvent("alert", "a\nb", "2"),
        StreamEvent("message", "c", "4"),
    ]
    place = "/v1/stream?store=all"
    assert StandIn.requests == [("GET", place, last_id) for last_id in (None, "2", "2")]


@pytest.mark.parametrize("status", [503, 422])
def test_a_stream_that_is_refused_at_once_is_an_error(api: ApiClient, status: int) -> None:
    StandIn.answers.append(answer(status, detail="no"))

    with pytest.raises(ApiError, match=f"test: {status} no"):
        next(api.events("/v1/stream"))


def test_a_later_connection_that_is_refused_for_good_is_an_error(api: ApiClient) -> None:
    StandIn.answers += [stream("retry: 1\nid: 1\n\n"), answer(410, detail="gone")]

    with pytest.raises(ApiError, match="test: 410 gone"):
        next(api.events("/v1/stream"))
