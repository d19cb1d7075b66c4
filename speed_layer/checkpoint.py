"""What a checkpoint folder says of its query: whether it has begun, and up to which offsets its micro-batches are committed."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from speed_layer.source import TopicOffsets
from tally.errors import Refused


def has_begun(checkpoint: Path) -> bool:
    """Whether a micro-batch was ever planned with this checkpoint."""
    return bool(_numbers(checkpoint / "offsets"))


def committed_position(checkpoint: Path) -> TopicOffsets | None:
    """First offset after the last committed micro-batch, by topic and partition; None before the first. Raises Refused if it is damaged."""
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


def _position(text: str) -> TopicOffsets:
    # Spark's offset log: version, metadata, then one line a source: {topic: {partition: first offset not in the batch}}.
    _, _, source = text.splitlines()
    return offsets_by_topic(json.loads(source))


def offsets_by_topic(told: Mapping[str, Mapping[str, int]]) -> TopicOffsets:
    """Offsets as Spark tells them: JSON has no numbers as names."""
    return {topic: {int(partition): offset for partition, offset in places.items()} for topic, places in told.items()}


def _numbers(folder: Path) -> list[int]:
    return [int(file.name) for file in folder.glob("*") if file.name.isdigit()]
