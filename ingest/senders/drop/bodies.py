"""Maps a dropped file to an address of the gateway, and cuts it into bodies.

traffic/axis_csv/sensor=ACCC1/monday.csv → POST /v1/events/traffic/axis_csv?sensor=ACCC1
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import BinaryIO, NamedTuple
from urllib.parse import quote, urlencode

from ingest.contract.vendor import FileSplitter
from ingest.gateway.submission import MAX_BYTES, endpoints
from ingest.senders.drop.files import DroppedFile
from ingest.senders.gateway_client import MAX_LINES, NDJSON, PART_BYTES
from schemas import loader
from tally.errors import BodyTooLarge
from tally.time.instants import format_utc

_ROOT = "/v1/events"
_MEDIA_TYPES = {".json": "application/json", ".ndjson": NDJSON, ".jsonl": NDJSON}
_EXPORTED_AT = "exported_at"
# File names are bytes; Python decodes them with this error handler.
_NAMES = "surrogateescape"


class Chunk(NamedTuple):
    """A body, and how many lines of the file precede it."""

    lines_before: int
    content: bytes


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
        names = [name for name in self.file.relative.parent.parts if "=" not in name]
        return "/".join((_ROOT, *(quote(name, safe="", errors=_NAMES) for name in names)))

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
    first, second = next(parts, None), next(parts, None)
    if first is None or second is None:
        # A file that fits into one body is sent as it was written.
        content.seek(0)
        yield Chunk(0, content.read(MAX_BYTES + 1))
        return
    yield from (first, second)
    yield from parts


def _chunk_lines(content: BinaryIO) -> Iterator[Chunk]:
    before, lines, size = 0, list[bytes](), 0
    # An overlong line is read no further.
    all_lines = iter(partial(content.readline, MAX_BYTES + 1), b"")
    for number, line in enumerate(all_lines, start=1):
        if len(line) > MAX_BYTES:
            raise BodyTooLarge(
                f"line {number:,} is longer than {MAX_BYTES:,} bytes, and none behind it was"
                " sent; correct it and drop the file again"
            )
        if lines and (len(lines) == MAX_LINES or size + len(line) > PART_BYTES):
            yield from _make_chunk(before, lines)
            before, lines, size = number - 1, [], 0
        lines.append(line)
        size += len(line)
    yield from _make_chunk(before, lines)


def _make_chunk(before: int, lines: list[bytes]) -> Iterator[Chunk]:
    # The gateway refuses an empty body.
    if (content := b"".join(lines)).strip():
        yield Chunk(before, content)
