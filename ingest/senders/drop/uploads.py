"""Sends one dropped file, body by body, and adds up what the gateway answers about it."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ingest.senders.drop.bodies import UploadRequest
from ingest.senders.drop.files import DroppedFile
from ingest.senders.gateway_client import GatewayClient, LinesAnswer
from tally.errors import BodyRefused, BodyTooLarge, GatewayUnavailable, RejectedEvent

_MAX_REJECTED = 100_000


@dataclass
class FileOutcome:
    """The gateway's answers about the lines of a file, added up."""

    accepted: int = 0
    rejected: list[dict[str, Any]] = field(default_factory=list)
    rejected_count: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    # The reason why the rest of the file was refused unread.
    refusal: Mapping[str, Any] | None = None

    @property
    def is_refused(self) -> bool:
        """Whether nothing of the file was taken, or not all of it was read."""
        is_wrong = self.rejected_count > 0 or bool(self.skipped)
        return self.refusal is not None or (is_wrong and not self.accepted)

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

    @property
    def description(self) -> str:
        """The outcome in one line."""
        if self.refusal is not None:
            return f"refused: {self.refusal.get('detail', self.refusal)}"
        texts = [f"{self.accepted:,} events taken"]
        if self.rejected_count:
            texts.append(f"{self.rejected_count:,} rejected")
        texts += [f"{count:,} skipped ({reason})" for reason, count in self.skipped.items()]
        return ", ".join(texts)

    def add(self, answer: LinesAnswer, lines_before: int) -> None:
        """Add one body's answer; lines are numbered from the beginning of the file."""
        self.accepted += answer.accepted
        self.rejected_count += answer.rejected_count or len(answer.rejected)
        self.skipped.update(answer.skipped)
        # The file itself is kept as well, so the first of millions of errors are enough.
        for line in answer.rejected[: _MAX_REJECTED - len(self.rejected)]:
            self.rejected.append({"line": line.line + lines_before, "errors": line.errors})


def send_file(
    file: DroppedFile,
    gateway: GatewayClient,
    say: Callable[[str], None],
    advance: Callable[[int], None],
) -> FileOutcome:
    """Send a file's bodies in order, until one is refused; returns the answers about them.

    `say` is called with the reason for each wait, `advance` with each number of bytes that is done.
    Raises GatewayUnavailable, FileChanged and OSError: the file is to be sent again.
    """
    request, outcome, left = UploadRequest(file), FileOutcome(), file.size
    if reason := request.refusal_reason:
        advance(left)
        outcome.refusal = {"detail": reason}
        return outcome
    with file.open_content() as content:
        try:
            for part in request.chunks(content):
                if gateway.stopped.is_set():
                    raise GatewayUnavailable("it was stopped; they are sent next time")
                file.check()
                answer = gateway.post(request.address, part.content, request.media_type, say)
                outcome.add(answer, part.lines_before)
                advance(len(part.content))
                left -= len(part.content)
        except BodyRefused as error:
            outcome.refusal = error.problem
        # A file that cannot be sent now never can be, and would wait for ever.
        except (ValueError, BodyTooLarge, RejectedEvent) as error:
            outcome.refusal = {"detail": str(error)}
    advance(max(0, left))
    return outcome
