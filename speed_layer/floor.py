"""Where a query without a checkpoint begins, and below which window it must not write (the floor, docs/guarantees.md)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from speed_layer.checkpoint import keep_whole
from speed_layer.source import Offsets
from tally.errors import BadSettings, TallyError
from tally.instants import instant_text
from tally.windows import WINDOW, window_start

FILE = "tally-handover.json"


@dataclass(frozen=True)
class Handover:
    """Starting offset by partition, and the first window the query may write (UTC); None: every window."""

    starting: Offsets
    floor: datetime | None


def kept_handover(checkpoint: Path) -> Handover | None:
    """The record that this checkpoint's query began with; None if there is none."""
    file = checkpoint / FILE
    if not file.is_file():
        return None
    kept = json.loads(file.read_text("utf-8"))
    starting = {int(partition): int(offset) for partition, offset in kept["starting"].items()}
    return Handover(starting, datetime.fromisoformat(kept["floor"]) if kept["floor"] else None)


def keep_handover(checkpoint: Path, handover: Handover) -> None:
    """The record kept with the checkpoint: whole or not at all, and before the query's first micro-batch."""
    text = json.dumps({"starting": dict(handover.starting), "floor": instant_text(handover.floor) if handover.floor else None})
    keep_whole(checkpoint / FILE, text)


def floor_above(master: DataFrame, family: str, starting: Offsets) -> datetime | None:
    """End of the latest window that has a record below the starting offsets; None if no record lies below.

    In: master records: source, partition, offset, happened_at (UTC). Every record of a window at or after the result lies at
    or after the starting offsets, so that the query sees such a window whole.
    """
    below = F.lit(False)
    for partition, offset in starting.items():
        below = below | ((F.col("partition") == partition) & (F.col("offset") < offset))
    latest = master.where((F.col("source") == family) & below).agg(F.max(F.unix_millis("happened_at"))).collect()[0][0]
    return None if latest is None else window_start(datetime.fromtimestamp(latest / 1000, UTC)) + WINDOW


def refuse_unknown_past(family: str, starting: Offsets, reached: Mapping[int, int]) -> None:
    """Nothing if the master holds every record below the starting offsets. Raises TallyError: the floor cannot be told yet.

    `reached`: first offset that the master does not hold yet, by partition.
    """
    for partition, offset in sorted(starting.items()):
        if offset > reached.get(partition, 0):
            raise TallyError(
                f"{family} partition {partition}: a query begun at offset {offset} has to know the records below it, the master "
                f"dataset holds them up to {reached.get(partition, 0)}; let `tally up master` catch up, or start at lower offsets"
            )


def given_offsets(text: str, family: str, partitions: int) -> Offsets | None:
    """Starting offsets of one family out of --starting-offsets '{"sales": {"0": 12}}'; None if it is not named there."""
    try:
        offsets = json.loads(text).get(family)
        given = None if offsets is None else {int(partition): int(offset) for partition, offset in offsets.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise BadSettings(f'--starting-offsets: {error}; give JSON such as {{"sales": {{"0": 12}}}}') from error
    if given is not None and not set(given) <= set(range(partitions)):
        raise BadSettings(f"--starting-offsets: {family} has partitions 0 to {partitions - 1}, got {sorted(given)}")
    return None if given is None else {partition: given.get(partition, 0) for partition in range(partitions)}
