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

from runtime.checkpoint import keep_whole
from runtime.offsets import Offsets, TopicOffsets, offsets_by_topic
from tally.errors import BadSettings, TallyError
from tally.instants import instant_text
from tally.windows import WINDOW, window_start

# Among Spark's own files in the checkpoint: who restores or moves the folder takes it along.
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
    keep_whole(
        checkpoint / FILE,
        json.dumps({"starting": {**handover.starting}, "floors": floors}),
    )


def floor_above(master: DataFrame, family: str, starting: Offsets) -> datetime | None:
    """End of the latest window with a record below the starting offsets; None if no record is.

    In:  master records: source, partition, offset, happened_at timestamp (UTC); starting: first
         offset by partition.
    Out: an instant on the grid of windows (UTC). Every record of a window at or after it lies at or
         after the starting offsets, so that the query sees such a window whole.
    """
    # Asked of the master: Kafka need not hold what lies below, retention may have taken it.
    below = F.lit(False)
    for partition, offset in starting.items():
        in_partition = F.col("partition") == partition
        below = below | (in_partition & (F.col("offset") < offset))
    latest = (
        master.where((F.col("source") == family) & below)
        .agg(F.max(F.unix_millis("happened_at")))
        .collect()[0][0]
    )
    if latest is None:
        return None
    return window_start(datetime.fromtimestamp(latest / 1000, UTC)) + WINDOW


def refuse_unknown_past(family: str, starting: Offsets, reached: Mapping[int, int]) -> None:
    """Raise TallyError unless the master holds every record below the starting offsets.

    The floor cannot be told before. `reached`: first offset that the master does not hold yet, by
    partition.
    """
    # A master that lacks the latest of them would give a floor too low, and the query would serve
    # the tail of a window as its whole, as one without any floor does (seen).
    for partition, offset in sorted(starting.items()):
        if offset > reached.get(partition, 0):
            raise TallyError(
                f"{family} partition {partition}: a query begun at offset {offset} has to know the"
                " records below it, the master dataset holds them up to"
                f" {reached.get(partition, 0)}; let `tally up master` catch up,"
                " or start at lower offsets"
            )


def given_offsets(text: str, topic: str, partitions: int) -> Offsets | None:
    """Starting offsets of one topic out of --starting-offsets '{"sales": {"0": 12}}', by partition.

    None if it is not named there; a partition that is not named begins at 0. Raises BadSettings for
    another text, or a partition that the topic has not.
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


def _as_now(
    kept: dict[str, Any],
    topics: Sequence[str],
) -> dict[str, Any]:
    # An earlier version had a query for each topic, and wrote "floor", and offsets without topic.
    return (
        kept
        if "floors" in kept
        else {
            "starting": {topics[0]: kept["starting"]},
            "floors": {},
        }
    )
