"""Sends one dropped file to the address that its folders name, cut into bodies."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import chain, islice
from typing import Any, BinaryIO
from urllib.parse import quote, urlencode

from ingest.contract.vendor import BodyPart, FileSplitter
from ingest.gateway.submission import MAX_BYTES, Endpoint, endpoints
from ingest.senders.drop.folder import DroppedFile
from ingest.senders.gateway_client import NDJSON, GatewayClient, LinesAnswer, batch_lines
from schemas import loader
from tally.errors import BodyRefused, BodyTooLarge, GatewayUnavailable, RejectedEvent
from tally.time.instants import format_utc

_ROOT = "/v1/events"
_MEDIA_TYPES = {".json": "application/json", ".ndjson": NDJSON, ".jsonl": NDJSON}
# File names are bytes; Python decodes them with this error handler.
_NAMES = "surrogateescape"
_MAX_REJECTED = 100_000


@dataclass
class FileOutcome:
    """The gateway's answers about a file, added up; `refusal`: why its rest was refused unread."""

    accepted: int = 0
    rejected: list[dict[str, Any]] = field(default_factory=list)
    rejected_count: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    refusal: Mapping[str, Any] | None = None

    @property
    def is_refused(self) -> bool:
        """Whether nothing of the file was taken, or not all of it was read."""
        return self.refusal is not None or (self._is_wrong and not self.accepted)

    @property
    def report(self) -> dict[str, Any] | None:
        """The answer that is kept beside the file; None if all of it was taken."""
        if self.accepted and not (self.refusal or self._is_wrong):
            return None
        counts = {"accepted": self.accepted, "rejected_count": self.rejected_count}
        lists = {"rejected": self.rejected, "skipped": dict(self.skipped)}
        return {**(self.refusal or {}), **counts, **lists}

    @property
    def description(self) -> str:
        """The outcome in one line."""
        if self.refusal is not None:
            return f"refused: {self.refusal.get('detail', self.refusal)}"
        rejected = [f"{self.rejected_count:,} rejected"] if self.rejected_count else []
        skipped = (f"{count:,} skipped ({reason})" for reason, count in self.skipped.items())
        return ", ".join([f"{self.accepted:,} events taken", *rejected, *skipped])

    @property
    def _is_wrong(self) -> bool:
        return self.rejected_count > 0 or bool(self.skipped)

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
    request, outcome, left = UploadRequest(file), FileOutcome(), file.status.st_size
    if reason := request.refusal_reason:
        advance(left)
        return FileOutcome(refusal={"detail": reason})
    with file.open_content() as content:
        try:
            for part in request.parts(content):
                if gateway.stopped.is_set():
                    raise GatewayUnavailable("it was stopped; they are sent next time")
                file.check()
                answer = gateway.post(request.address, part.content, request.media_type, say)
                outcome.add(answer, part.events_before)
                advance(len(part.content))
                left -= len(part.content)
        except BodyRefused as error:
            outcome.refusal = error.problem
        # A file that cannot be sent now never can be, and would wait for ever.
        except (ValueError, BodyTooLarge, RejectedEvent) as error:
            outcome.refusal = {"detail": str(error)}
    advance(max(0, left))
    return outcome


@dataclass(frozen=True)
class UploadRequest:
    """A dropped file, and the address of its folders; those named `name=value` are parameters."""

    file: DroppedFile

    @cached_property
    def address(self) -> str:
        """Path and parameters; a vendor's format gets an export time if no folder names one."""
        folders = self.file.relative.parent.parts
        parameters = dict(folder.split("=", 1) for folder in folders if "=" in folder)
        if not self._is_ours:
            # A device that exports up to now ends with an unfinished interval, and the file may
            # arrive here days later. Copying programs may keep the original's time.
            modified = self.file.status.st_mtime_ns // 1_000_000_000
            parameters.setdefault("exported_at", format_utc(datetime.fromtimestamp(modified, UTC)))
        query = urlencode(parameters, errors=_NAMES)
        return f"{self._path}?{query}" if query else self._path

    @property
    def media_type(self) -> str:
        """The media type, by the ending of the file's name."""
        suffix = self.file.relative.suffix.lower()
        return _MEDIA_TYPES.get(suffix, "application/octet-stream")

    @property
    def refusal_reason(self) -> str | None:
        """Why the file is not sent at all, and what to do; None if it is sent."""
        if self._path == _ROOT:
            return (
                "its folders do not say what it is: put it into SOURCE, or into"
                " SOURCE/FORMAT/NAME=VALUE, as the gateway's paths are (docs/people-counters.md)"
            )
        sources = loader.sources().values()
        sighted = (source.path for source in sources if source.family.reading == "presence")
        if any(f"{self._path}/".startswith(f"{path}/") for path in sighted):
            return (
                "bodies of WiFi are not taken from files: people's hardware addresses and the"
                " vendor's shared secret would lie here. Let the sender push to the gateway"
                " at this path, and delete this file"
            )
        if self._is_ours and self.media_type not in _MEDIA_TYPES.values():
            return "call it .json (one object) or .ndjson (one object a line)"
        size, is_cut = self.file.status.st_size, self._is_lines or self._splitter is not None
        if not is_cut and size > MAX_BYTES:
            return (
                f"it has {size:,} bytes, and at most {MAX_BYTES:,} are taken at once:"
                " export fewer days at once"
            )
        return None

    def parts(self, content: BinaryIO) -> Iterator[BodyPart]:
        """The bodies of the file. Raises BodyTooLarge for an overlong line, RejectedEvent.

        Tally's own NDJSON goes in lots of lines, a vendor's format as cut, anything else as it is.
        """
        if self._is_lines:
            yield from _chunk_lines(content)
        elif self._splitter is not None:
            yield from _split_file(content, self._splitter)
        else:
            # Reads one byte past the known size at most: the file may have grown since.
            yield BodyPart(0, content.read(self.file.status.st_size + 1))

    @cached_property
    def _path(self) -> str:
        names = (name for name in self.file.relative.parent.parts if "=" not in name)
        quoted = (quote(name, safe="", errors=_NAMES) for name in names)
        return "/".join((_ROOT, *quoted))

    @cached_property
    def _endpoint(self) -> Endpoint | None:
        return next((endpoint for endpoint in endpoints() if endpoint.path == self._path), None)

    @property
    def _is_ours(self) -> bool:
        return self._endpoint is not None and self._endpoint.messages is None

    @property
    def _is_lines(self) -> bool:
        return self._is_ours and self.media_type == NDJSON

    @property
    def _splitter(self) -> FileSplitter | None:
        return self._endpoint.parts if self._endpoint else None


def _split_file(content: BinaryIO, cutter: FileSplitter) -> Iterator[BodyPart]:
    parts = cutter(content)
    first_two = [*islice(parts, 2)]
    if len(first_two) < 2:
        # A file that fits into one body is sent as it was written.
        content.seek(0)
        first_two = [BodyPart(0, content.read(MAX_BYTES + 1))]
    yield from chain(first_two, parts)


def _chunk_lines(content: BinaryIO) -> Iterator[BodyPart]:
    lines_before = 0
    for lines in batch_lines(_read_lines(content)):
        body = b"".join(lines)
        # The gateway refuses an empty body.
        if body.strip():
            yield BodyPart(lines_before, body)
        lines_before += len(lines)


def _read_lines(content: BinaryIO) -> Iterator[bytes]:
    # An overlong line is read no further.
    all_lines = iter(partial(content.readline, MAX_BYTES + 1), b"")
    for number, line in enumerate(all_lines, start=1):
        if len(line) > MAX_BYTES:
            raise BodyTooLarge(
                f"line {number:,} is longer than {MAX_BYTES:,} bytes, and none behind it was"
                " sent; correct it and drop the file again"
            )
        yield line
