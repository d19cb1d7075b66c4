"""Sends one dropped file: maps it to an address of the gateway, and cuts it into bodies.

traffic/axis_csv/sensor=ACCC1/monday.csv → POST /v1/events/traffic/axis_csv?sensor=ACCC1
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, islice
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import quote, urlencode

from ingest.contract.vendor import FileSplitter
from ingest.gateway.submission import MAX_BYTES, endpoints
from ingest.senders.drop.files import DroppedFile
from ingest.senders.gateway_client import NDJSON, GatewayClient, LinesAnswer, batch_lines
from schemas import loader
from tally.errors import BodyRefused, BodyTooLarge, GatewayUnavailable, RejectedEvent
from tally.time.instants import format_utc

_ROOT = "/v1/events"
_MEDIA_TYPES = {".json": "application/json", ".ndjson": NDJSON, ".jsonl": NDJSON}
_EXPORTED_AT = "exported_at"
# File names are bytes; Python decodes them with this error handler.
_NAMES = "surrogateescape"
_MAX_REJECTED = 100_000


class Chunk(NamedTuple):
    """A body, and how many lines of the file precede it."""

    lines_before: int
    content: bytes


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


@dataclass(frozen=True)
class UploadRequest:
    """A dropped file and the address that its folders name.

    Folders `name=value` are parameters; the others are source and format.
    """

    file: DroppedFile

    @cached_property
    def address(self) -> str:
        """Path and parameters; a vendor's format gets an export time if no folder names one."""
        folders = self.file.relative.parent.parts
        parameters = dict(folder.split("=", 1) for folder in folders if "=" in folder)
        if not self._is_ours:
            # A device that exports up to now ends with an unfinished interval, and the file may
            # arrive here days later.
            parameters.setdefault(_EXPORTED_AT, format_utc(self.file.modified_at))
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
        if self._has_devices:
            return (
                "bodies of WiFi are not taken from files: people's hardware addresses and the"
                " vendor's shared secret would lie here. Let the sender push to the gateway"
                " at this path, and delete this file"
            )
        if self._is_ours and self.media_type not in _MEDIA_TYPES.values():
            return "call it .json (one object) or .ndjson (one object a line)"
        is_cut = self._is_lines or self._splitter is not None
        if not is_cut and self.file.size > MAX_BYTES:
            return (
                f"it has {self.file.size:,} bytes, and at most {MAX_BYTES:,} are taken at once:"
                " export fewer days at once"
            )
        return None

    def chunks(self, content: BinaryIO) -> Iterator[Chunk]:
        """The bodies of the file, in order.

        NDJSON of Tally's own contract is sent in lots of lines, a vendor's format as its cutter
        cuts it, anything else as it is. Raises BodyTooLarge for a line that no body can hold,
        RejectedEvent for what cannot be cut.
        """
        if self._is_lines:
            yield from _chunk_lines(content)
        elif self._splitter is not None:
            yield from _split_file(content, self._splitter)
        else:
            # Reads one byte past the known size at most: the file may have grown since.
            yield Chunk(0, content.read(self.file.size + 1))

    @cached_property
    def _path(self) -> str:
        names = (name for name in self.file.relative.parent.parts if "=" not in name)
        quoted = (quote(name, safe="", errors=_NAMES) for name in names)
        return "/".join((_ROOT, *quoted))

    @cached_property
    def _is_ours(self) -> bool:
        return any(self._path == source.path for source in loader.sources().values())

    @property
    def _is_lines(self) -> bool:
        return self._is_ours and self.media_type == NDJSON

    @cached_property
    def _splitter(self) -> FileSplitter | None:
        return next((each.parts for each in endpoints() if each.path == self._path), None)

    @property
    def _has_devices(self) -> bool:
        return any(
            f"{self._path}/".startswith(f"{source.path}/")
            for source in loader.sources().values()
            if source.family.reading == "presence"
        )


def _split_file(content: BinaryIO, cutter: FileSplitter) -> Iterator[Chunk]:
    parts = (Chunk(*part) for part in cutter(content))
    first_two = [*islice(parts, 2)]
    if len(first_two) < 2:
        # A file that fits into one body is sent as it was written.
        content.seek(0)
        first_two = [Chunk(0, content.read(MAX_BYTES + 1))]
    yield from chain(first_two, parts)


def _chunk_lines(content: BinaryIO) -> Iterator[Chunk]:
    lines_before = 0
    for lines in batch_lines(_read_lines(content)):
        body = b"".join(lines)
        # The gateway refuses an empty body.
        if body.strip():
            yield Chunk(lines_before, body)
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
