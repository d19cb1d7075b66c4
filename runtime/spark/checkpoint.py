"""What a Spark query leaves to read without Spark: its checkpoint, and the cause of its failure."""

import json
from pathlib import Path

from runtime.kafka.offsets import TopicOffsets, parse_offsets
from tally.errors import UnrecoverableError

# Spark quotes a worker's traceback within that of py4j, and that within the JVM's: the last one in
# the text is the original.
_TRACEBACK = "Traceback (most recent call last):"
_CAUSED_BY = "Caused by: "
_MAX_CHARACTERS = 300


def has_begun(checkpoint: Path) -> bool:
    """Whether a micro-batch was ever planned with this checkpoint."""
    return bool(_batch_numbers(checkpoint / "offsets"))


def read_committed_position(checkpoint: Path) -> TopicOffsets | None:
    """First offset after the last committed micro-batch, by topic and partition.

    None before the first. Raises UnrecoverableError if it is damaged.
    """
    committed = _batch_numbers(checkpoint / "commits")
    return read_planned_end(checkpoint, max(committed)) if committed else None


def read_planned_end(checkpoint: Path, batch: int) -> TopicOffsets:
    """First offset not in the micro-batch, by topic and partition.

    It is on disk before the micro-batch runs. Raises UnrecoverableError if it is damaged or
    missing.
    """
    # The lines are the version, the metadata, and one line for the one source.
    return _read_offsets(checkpoint, checkpoint / "offsets" / str(batch), lines=3)


def read_planned_start(checkpoint: Path, batch: int) -> TopicOffsets:
    """First offset of the micro-batch, by topic and partition. Raises UnrecoverableError."""
    if batch:
        return read_planned_end(checkpoint, batch - 1)
    # The start of the query lies in a file of two lines: the version and the offsets.
    return _read_offsets(checkpoint, checkpoint / "sources" / "0" / "0", lines=2)


def _read_offsets(checkpoint: Path, file: Path, lines: int) -> TopicOffsets:
    try:
        *before, source = file.read_text("utf-8").splitlines()
        # A file cut off after its second line also ends in JSON, the metadata: read as offsets,
        # that would name no topic.
        if len(before) != lines - 1:
            raise ValueError(f"{len(before) + 1} lines, not {lines}")
        return parse_offsets(json.loads(source))
    except (OSError, ValueError, AttributeError) as error:
        raise UnrecoverableError(
            f"checkpoint {checkpoint}: {file.relative_to(checkpoint)} is damaged or missing"
            f" ({error}); restore the whole folder, or move it away to begin again"
        ) from error


def _batch_numbers(folder: Path) -> list[int]:
    # Checksums and half-written files of a crash lie beside the numbered files.
    names = (file.name for file in folder.glob("*"))
    return [int(name) for name in names if name.isdigit()]


def root_cause(text: str) -> str:
    """The root cause in the text, as one line.

    It is the Python error at the end of the last traceback, else the JVM's last cause, else the
    beginning of the text.
    """
    _, traceback, after = text.rpartition(_TRACEBACK)
    if traceback:
        lines = filter(None, after.splitlines()[1:])
        found = next((line for line in lines if not line[0].isspace()), text)
    else:
        _, marker, cause = f"\n{text}".rpartition(f"\n{_CAUSED_BY}")
        found = cause.partition("\n")[0] if marker else text
    return " ".join(found.split())[:_MAX_CHARACTERS]
