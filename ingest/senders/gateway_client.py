"""The client of the gateway: sends bodies until they are taken or refused, or the time is up."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Protocol

import httpx
import msgspec
import tenacity

from runtime.outbound.caller import parse_retry_after
from tally.errors import BodyRefused, GatewayUnavailable

NDJSON = "application/x-ndjson"
# The gateway takes messages of at most 64 stores and 64 days at once, and 5 MiB: so many lines
# always fit, and its answer has room for the reason of each rejected one.
_MAX_LINES, _MAX_BYTES = 64, 2_000_000
_RETRY_SECONDS, _ANSWER_SECONDS = 60.0, 60.0
_BUSY = (httpx.codes.REQUEST_TIMEOUT, httpx.codes.TOO_MANY_REQUESTS)
_PAUSE = tenacity.wait_exponential(multiplier=0.5, max=5)
_MAX_TEXT = 2_000


class LineAnswer(msgspec.Struct):
    """What is wrong with a line of a body, or with an event of a vendor's body, by number."""

    line: int
    errors: list[Any]


class LinesAnswer(msgspec.Struct):
    """The fields that are needed of the gateway's answer about the lines of a body."""

    accepted: int
    rejected: list[LineAnswer]
    rejected_count: int = 0
    skipped: dict[str, int] = {}


@dataclass(frozen=True)
class GatewayClient:
    """Posts to one gateway until `stopped`; tries each body for `retry_seconds` seconds."""

    http: httpx.Client
    retry_seconds: float
    stopped: Event = field(default_factory=Event)

    def post(
        self,
        address: str,
        content: bytes,
        media_type: str = NDJSON,
        say: Callable[[str], None] = lambda _reason: None,
    ) -> LinesAnswer:
        """Send a body; returns the answer about its lines, of which some may be rejected.

        `say` is called with the reason for each wait. Raises GatewayUnavailable if the gateway is
        away or busy for too long, and BodyRefused if it has read no line and never will.
        """

        def announce(state: tenacity.RetryCallState) -> None:
            say(f"{_unavailable(state)}; it is asked again for {self.retry_seconds:g} s")

        late = tenacity.stop_before_delay(self.retry_seconds)
        # Sending again is safe: an event counts once, in any number of bodies.
        asking = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(GatewayUnavailable),
            stop=tenacity.stop_any(late, tenacity.stop_when_event_set(self.stopped)),
            wait=lambda state: max(_PAUSE(state), _unavailable(state).wait_seconds),
            sleep=tenacity.sleep_using_event(self.stopped),
            before_sleep=announce,
            reraise=True,
        )
        return asking(self._post_once, address, content, media_type)

    def post_accepted(self, path: str, messages: Sequence[bytes]) -> None:
        """Send messages that are all to be accepted. Raises as post(), and BodyRefused if not."""
        answer = self.post(path, b"\n".join(messages))
        if answer.rejected:
            raise BodyRefused({"detail": f"not all was accepted: {answer.rejected[0].errors}"})

    def _post_once(self, address: str, content: bytes, media_type: str) -> LinesAnswer:
        try:
            answer = self.http.post(address, content=content, headers={"Content-Type": media_type})
        except httpx.InvalidURL as error:
            raise BodyRefused({"detail": str(error)}) from error
        except httpx.TransportError as error:
            # The error of a time-out has no text.
            why = str(error) or type(error).__name__
            fix = "see `tally status`, and `tally up gateway` if it does not run"
            detail = f"the gateway does not answer ({why}): {fix}"
            raise GatewayUnavailable(detail, is_away=True) from error
        if answer.is_server_error or answer.status_code in _BUSY:
            wait_seconds = parse_retry_after(answer.headers.get("retry-after", ""), time.time())
            problem = _problem(answer).get("detail", "")
            detail = f"the gateway answers {answer.status_code}: {problem}"
            raise GatewayUnavailable(detail, wait_seconds or 0.0)
        return _read_lines(answer)


@contextmanager
def connect_gateway(
    address: str, retry_seconds: float = _RETRY_SECONDS, stopped: Event | None = None
) -> Iterator[GatewayClient]:
    """A client of the gateway at host:port; it ignores the environment's proxies."""
    # A proxy must not read what a shop sold.
    base_url = f"http://{address}"
    with httpx.Client(base_url=base_url, timeout=_ANSWER_SECONDS, trust_env=False) as http:
        yield GatewayClient(http, retry_seconds, stopped or Event())


def batch_lines(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The lines in order, in batches of which each fits into one body."""
    batch, size = list[bytes](), 0
    for line in lines:
        if batch and (len(batch) == _MAX_LINES or size + len(line) > _MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line)
    if batch:
        yield batch


class Channel(Protocol):
    """Takes messages in order; after flush() each is stored or was refused for good."""

    def send(self, key: str, value: bytes) -> None:
        """Hand over one message; it may still be in flight afterwards."""

    def flush(self) -> None:
        """Wait until every message is acknowledged. Raises TallyError if one cannot be."""


class GatewayChannel:
    """Sends to the gateway, many lines in a request; refused lines are not sent again."""

    def __init__(self, gateway: GatewayClient, path: str) -> None:
        self._gateway, self._path = gateway, path
        self._lines: list[bytes] = []

    def send(self, _key: str, value: bytes) -> None:
        """Add one line to the next request."""
        self._lines.append(value)
        if len(self._lines) >= _MAX_LINES:
            self.flush()

    def flush(self) -> None:
        """Send the waiting lines; raises as GatewayClient.post() does."""
        for lines in batch_lines(self._lines):
            self._gateway.post(self._path, b"\n".join(lines))
        self._lines = []


def _read_lines(answer: httpx.Response) -> LinesAnswer:
    """The answer about lines. Raises BodyRefused if there is none: another program may answer."""
    if answer.is_success or answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY:
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(answer.content, type=LinesAnswer)
    raise BodyRefused({"status": answer.status_code, **_problem(answer)})


def _problem(answer: httpx.Response) -> dict[str, Any]:
    """A problem document, or what else was answered: a proxy may answer in its own format."""
    problem: dict[str, Any] = {"detail": answer.text[:_MAX_TEXT]}
    with suppress(ValueError):
        content = answer.json()
        if isinstance(content, dict):
            problem |= content
    if answer.status_code == httpx.codes.NOT_FOUND:
        problem["detail"] = (
            "the gateway knows no such source or format; the folders of a dropped file must be"
            " named as its paths are: docs/generated/sources.md"
        )
    return problem


def _unavailable(state: tenacity.RetryCallState) -> GatewayUnavailable:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, GatewayUnavailable)
    return error
