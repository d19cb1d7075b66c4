"""Where a query without a checkpoint begins, and below which window it must not write.

That window is the floor (docs/guarantees.md).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.checkpoint import Offsets, TopicOffsets, keep_whole, offsets_by_topic
from tally.errors import BadSettings, TallyError
from tally.instants import instant_text
from tally.windows import WINDOW, window_start

FILE = "tally-handover.json"
# By family the first window that the query may write (UTC); None: every window.
Floors = Mapping[str, datetime | None]


@dataclass(frozen=True)
class Handover:
    """Starting offset by topic and partition, and the floors of the query's families.

    These are the families whose views it keeps.
    """

    starting: TopicOffsets
    floors: Floors


def kept_handover(checkpoint: Path, topics: Sequence[str]) -> Handover | None:
    """The record that this checkpoint's query of the topics began with; None if there is none."""
    file = checkpoint / FILE
    if not file.is_file():
        return None
    kept = _as_now(json.loads(file.read_text("utf-8")), topics)
    floors = {
        family: datetime.fromisoformat(floor) if floor else None
        for family, floor in kept["floors"].items()
    }
    return Handover(offsets_by_topic(kept["starting"]), floors)


def keep_handover(checkpoint: Path, handover: Handover) -> None:
    """The record kept with the checkpoint, before the query's first micro-batch.

    Whole or not at all.
    """
    floors = {
        family: instant_text(floor) if floor else None for family, floor in handover.floors.items()
    }
    keep_whole(checkpoint / FILE, json.dumps({"starting": {**handover.starting}, "floors": floors}))


def floor_above(master: DataFrame, family: str, starting: Offsets) -> datetime | None:
    """End of the latest window with a record below the starting offsets; None if no record is.

    In: master records: source, partition, offset, happened_at (UTC). Every record of a window at or
        after the result lies at or after the starting offsets, so that the query sees such a window
        whole.
    """
    below = F.lit(False)
    for partition, offset in starting.items():
        below = below | ((F.col("partition") == partition) & (F.col("offset") < offset))
    latest = (
        master.where((F.col("source") == family) & below)
        .agg(F.max(F.unix_millis("happened_at")))
        .collect()[0][0]
    )
    if latest is None:
        return None
    return window_start(datetime.fromtimestamp(latest / 1000, UTC)) + WINDOW


def refuse_unknown_past(family: str, starting: Offsets, reached: Mapping[int, int]) -> None:
    """Nothing if the master holds every record below the starting offsets.

    Raises TallyError: the floor cannot be told yet.

    `reached`: first offset that the master does not hold yet, by partition.
    """
    for partition, offset in sorted(starting.items()):
        if offset > reached.get(partition, 0):
            raise TallyError(
                f"{family} partition {partition}: a query begun at offset {offset} has to know the"
                " records below it, the master dataset holds them up to"
                f" {reached.get(partition, 0)}; let `tally up master` catch up,"
                " or start at lower offsets"
            )


def given_offsets(text: str, topic: str, partitions: int) -> Offsets | None:
    """Starting offsets of one topic out of --starting-offsets '{"sales": {"0": 12}}'.

    None if it is not named there.
    """
    try:
        offsets = json.loads(text).get(topic)
        given = (
            None
            if offsets is None
            else {int(partition): int(offset) for partition, offset in offsets.items()}
        )
    except (ValueError, AttributeError, TypeError) as error:
        raise BadSettings(
            f'--starting-offsets: {error}; give JSON such as {{"sales": {{"0": 12}}}}'
        ) from error
    if given is not None and not set(given) <= set(range(partitions)):
        raise BadSettings(
            f"--starting-offsets: {topic} has partitions 0 to {partitions - 1}, got {sorted(given)}"
        )
    return (
        None
        if given is None
        else {partition: given.get(partition, 0) for partition in range(partitions)}
    )


def _as_now(kept: dict[str, Any], topics: Sequence[str]) -> dict[str, Any]:
    # An earlier version had a query for each topic, and wrote "floor", and offsets without topic.
    return kept if "floors" in kept else {"starting": {topics[0]: kept["starting"]}, "floors": {}}
