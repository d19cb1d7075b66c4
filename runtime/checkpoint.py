"""What a checkpoint folder of Spark says of its query.

Whether it has begun, and which offsets its micro-batches have.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from tally.errors import Refused

# By partition, and by topic and partition.
Offsets: TypeAlias = Mapping[int, int]
TopicOffsets: TypeAlias = Mapping[str, Offsets]


def has_begun(checkpoint: Path) -> bool:
    """Whether a micro-batch was ever planned with this checkpoint."""
    return bool(_numbers(checkpoint / "offsets"))


def committed_position(checkpoint: Path) -> TopicOffsets | None:
    """First offset after the last committed micro-batch, by topic and partition.

    None before the first. Raises Refused if it is damaged.
    """
    committed = _numbers(checkpoint / "commits")
    return planned_end(checkpoint, max(committed)) if committed else None


def planned_end(checkpoint: Path, batch: int) -> TopicOffsets:
    """First offset not in the micro-batch, which is on disk before the micro-batch runs.

    Raises Refused if it is damaged or missing.
    """
    # Version, metadata, and one line for the one source.
    return _offsets_in(checkpoint, checkpoint / "offsets" / str(batch), lines=3)


def planned_start(checkpoint: Path, batch: int) -> TopicOffsets:
    """First offset of the micro-batch. Raises Refused if it is damaged or missing."""
    if batch:
        return planned_end(checkpoint, batch - 1)
    # Where the query began: version, and one line.
    return _offsets_in(checkpoint, checkpoint / "sources" / "0" / "0", lines=2)


def _offsets_in(checkpoint: Path, file: Path, lines: int) -> TopicOffsets:
    try:
        *before, source = file.read_text("utf-8").splitlines()
        if len(before) != lines - 1:
            raise ValueError(f"{len(before) + 1} lines, not {lines}")
        return offsets_by_topic(json.loads(source))
    except (OSError, ValueError, AttributeError) as error:
        raise Refused(
            f"checkpoint {checkpoint}: {file.relative_to(checkpoint)} is damaged or missing"
            f" ({error}); restore the whole folder, or move it away to begin anew"
        ) from error


def offsets_by_topic(told: Mapping[str, Mapping[str, int]]) -> TopicOffsets:
    """Offsets as Spark tells them: JSON has no numbers as names."""
    return {
        topic: {int(partition): offset for partition, offset in places.items()}
        for topic, places in told.items()
    }


def text_of(offsets: TopicOffsets) -> str:
    """Offsets as Spark is told them."""
    return json.dumps(
        {
            topic: {str(partition): offset for partition, offset in places.items()}
            for topic, places in offsets.items()
        }
    )


def keep_whole(file: Path, text: str) -> None:
    """The file has this text, on the disk and not in a cache.

    Who reads meanwhile finds the old one.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    arriving = file.with_name(f"{file.name}.arriving")
    with arriving.open("w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    arriving.rename(file)


def _numbers(folder: Path) -> list[int]:
    return [int(file.name) for file in folder.glob("*") if file.name.isdigit()]
