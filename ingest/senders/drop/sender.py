"""Sends bodies to the gateway, each until it is taken or refused.

It gives up after some time, or when the gateway asks it to wait for longer.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Event
from typing import Any, NoReturn

import httpx
import msgspec
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    retry_if_result,
    sleep_using_event,
    stop_before_delay,
    stop_when_event_set,
    wait_exponential,
)

from ingest.senders.drop.bodies import UploadRequest
from tally.errors import GatewayUnavailable

ReportWait = Callable[[str], None]

_PAUSE = wait_exponential(multiplier=0.5, max=5)
_ANSWER_SECONDS = 60.0
_RETRY_CODES = (httpx.codes.REQUEST_TIMEOUT, httpx.codes.TOO_MANY_REQUESTS)
_MAX_TEXT = 2_000
_MAX_REJECTED = 100_000


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


@dataclass
class FileOutcome:
    """The gateway's answers about the lines of a file, added up."""

    accepted: int = 0
    rejected: list[dict[str, Any]] = field(default_factory=list)
    rejected_count: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    # The reason why a whole body was refused unread.
    refusal: dict[str, Any] | None = None

    @property
    def is_refused(self) -> bool:
        """Whether nothing of the file was taken."""
        wrong = self.refusal is not None or self.rejected_count > 0 or bool(self.skipped)
        return wrong and not self.accepted

    @property
    def report(self) -> dict[str, Any] | None:
        """The answer that is kept beside the file; None if all of it was taken."""
        if self.accepted and not (self.refusal or self.rejected_count or self.skipped):
            return None
        return {
            **(self.refusal or {}),
            "accepted": self.accepted,
            "rejected_count": self.rejected_count,
            "rejected": self.rejected,
            "skipped": dict(self.skipped),
        }

    def add(self, answer: LinesAnswer, lines_before: int) -> None:
        """Add one body's answer; lines are numbered from the beginning of the file."""
        self.accepted += answer.accepted
        self.rejected_count += answer.rejected_count or len(answer.rejected)
        self.skipped.update(answer.skipped)
        # The file itself is kept as well, so the first of millions of errors are enough.
        for line in answer.rejected[: _MAX_REJECTED - len(self.rejected)]:
            self.rejected.append({"line": line.line + lines_before, "errors": line.errors})


@dataclass(frozen=True)
class Sender:
    """Sends to one gateway until `stopped`; tries each body for `retry_seconds` seconds."""

    client: httpx.Client
    stopped: Event
    retry_seconds: float = 60.0

    def post(self, mailing: UploadRequest, content: bytes, say: ReportWait) -> httpx.Response:
        """The gateway's answer, taken or refused. Raises GatewayUnavailable, httpx.InvalidURL.

        `say` is called with the reason for each wait.
        """

        def announce(state: RetryCallState) -> None:
            say(f"{_not_taken_error(state)}; it is asked again for {self.retry_seconds:g} s")

        # Sending again is safe: an event counts once, in any number of bodies.
        asking = Retrying(
            retry=retry_if_exception_type(httpx.TransportError) | retry_if_result(_is_retryable),
            stop=stop_before_delay(self.retry_seconds) | stop_when_event_set(self.stopped),
            wait=_pause,
            sleep=sleep_using_event(self.stopped),
            before_sleep=announce,
            retry_error_callback=_give_up,
        )
        headers = {"Content-Type": mailing.media_type}
        answer: httpx.Response = asking(
            self.client.post, mailing.address, content=content, headers=headers
        )
        return answer


def make_client(address: str) -> httpx.Client:
    """A client of the gateway at host:port; it ignores the environment's proxies."""
    # A proxy must not read what a shop sold.
    return httpx.Client(base_url=f"http://{address}", timeout=_ANSWER_SECONDS, trust_env=False)


def read_answer(answer: httpx.Response) -> LinesAnswer | None:
    """The answer about lines; None if no line was read, or another program answers."""
    if not (answer.is_success or answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY):
        return None
    try:
        return msgspec.json.decode(answer.content, type=LinesAnswer)
    except msgspec.DecodeError:
        return None


def read_refusal(answer: httpx.Response) -> dict[str, Any]:
    """An answer that refuses the body, for people: a problem document, or its text."""
    refusal = _json(answer) or {"detail": answer.text[:_MAX_TEXT]}
    if answer.status_code == httpx.codes.NOT_FOUND:
        refusal["detail"] = (
            "the gateway knows no such source or format; its folders must be named as its paths"
            " are: docs/generated/sources.md"
        )
    return {"status": answer.status_code, **refusal}


def retry_after(answer: httpx.Response) -> float:
    """The seconds of its Retry-After header, given as seconds or as a date; 0 without one."""
    header = answer.headers.get("retry-after", "").strip()
    if header.isdecimal():
        return float(header[:9])
    try:
        at = parsedate_to_datetime(header)
    except ValueError:
        return 0.0
    # A date that ends in -0000 is read without a zone: it is UTC.
    wait = at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)
    return max(0.0, wait.total_seconds())


def _json(answer: httpx.Response) -> dict[str, Any] | None:
    try:
        content = answer.json()
    except ValueError:
        # A proxy may answer in its own format.
        return None
    return content if isinstance(content, dict) else None


def _is_retryable(answer: httpx.Response) -> bool:
    return answer.is_server_error or answer.status_code in _RETRY_CODES


def _pause(state: RetryCallState) -> float:
    outcome = state.outcome
    requested_seconds = 0.0 if outcome is None or outcome.failed else retry_after(outcome.result())
    return max(_PAUSE(state), requested_seconds)


def _give_up(state: RetryCallState) -> NoReturn:
    raise _not_taken_error(state)


def _not_taken_error(state: RetryCallState) -> GatewayUnavailable:
    assert state.outcome is not None
    if error := state.outcome.exception():
        # The error of a time-out has no text.
        why = str(error) or type(error).__name__
        return GatewayUnavailable(
            f"the gateway does not answer ({why}): see `tally status`, and `tally up gateway` if"
            " it does not run",
            is_away=True,
        )
    answer: httpx.Response = state.outcome.result()
    detail = read_refusal(answer).get("detail", "")
    return GatewayUnavailable(
        f"the gateway answers {answer.status_code}: {detail}", retry_after(answer)
    )
