"""What a checkpoint folder says of its query: whether it has begun, and up to which offsets its micro-batches are committed."""

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from speed_layer.source import Offsets
from tally.errors import Refused


@dataclass(frozen=True)
class Position:
    """The last committed micro-batch: first offset not read, by partition, and the watermark that it was given."""

    until: Offsets
    watermark: datetime


def has_begun(checkpoint: Path) -> bool:
    """Whether a micro-batch was ever planned with this checkpoint."""
    return bool(_numbers(checkpoint / "offsets"))


def committed_position(checkpoint: Path) -> Position | None:
    """The position after the last committed micro-batch; None before the first. Raises Refused if it is damaged."""
    committed = _numbers(checkpoint / "commits")
    if not committed:
        return None
    file = checkpoint / "offsets" / str(max(committed))
    try:
        return _position(file.read_text("utf-8"))
    except (OSError, ValueError, KeyError) as error:
        raise Refused(
            f"checkpoint {checkpoint}: {file.name} of offsets is damaged or missing ({error}); restore the whole folder, or move it away: "
            f"the query then begins anew with a floor"
        ) from error


def keep_whole(file: Path, text: str) -> None:
    """The file has this text, on the disk and not in a cache; who reads meanwhile finds the old one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    arriving = file.with_name(f"{file.name}.arriving")
    with arriving.open("w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    arriving.rename(file)


def _position(text: str) -> Position:
    # Spark's offset log: version, metadata, then one line a source: {topic: {partition: first offset not in the batch}}.
    _, metadata, source = text.splitlines()
    until = {int(partition): int(offset) for offsets in json.loads(source).values() for partition, offset in offsets.items()}
    return Position(until, datetime.fromtimestamp(json.loads(metadata)["batchWatermarkMs"] / 1000, UTC))


def _numbers(folder: Path) -> list[int]:
    return [int(file.name) for file in folder.glob("*") if file.name.isdigit()]
