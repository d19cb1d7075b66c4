"""The start position with which a query begins: a stored one, or else a new one.

A new one is computed from the master dataset. Its floor says from which window on a query without a
checkpoint may write (docs/guarantees.md).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.kafka.offsets import Offsets, TopicOffsets, parse_offsets
from runtime.process.files import write_atomically
from runtime.spark.checkpoint import has_begun
from speed_layer.input.session import Driver
from tally.errors import TallyError, UnrecoverableError
from tally.families.family import Family
from tally.time.instants import format_utc
from tally.time.windows import WINDOW, window_start

# The first window that the query may write (UTC), by family; None: every window.
Floors: TypeAlias = Mapping[str, datetime | None]


def compute_floor(driver: Driver, family: Family, starting: Offsets) -> datetime | None:
    """The floor of a family's view for a query that begins at these offsets.

    Raises TallyError when the master does not reach these offsets yet.
    """
    # From the very first record on every window is seen whole.
    if not any(starting.values()):
        return None
    # The position that the ingest notes, and not the table's end: transaction markers, which are no
    # rows, may follow the last record.
    rows = driver.session.execute(
        "SELECT partition, until FROM master_position WHERE family = %s", [family.name]
    )
    refuse_unknown_past(family.name, starting, {row.partition: row.until for row in rows})
    master = driver.spark.read.format("delta").load(str(driver.settings.master_path))
    return floor_above(master, family.name, starting)


def floor_above(master: DataFrame, family: str, starting: Offsets) -> datetime | None:
    """End of the latest window with a record below the starting offsets; None if no record is.

    In:  master records: source, partition, offset, happened_at timestamp (UTC); starting: first
         offset by partition.
    Out: an instant on the grid of windows (UTC). Every record of a window at or after it lies at or
         after the starting offsets, so that the query sees such a window whole.
    """
    # The master is read: Kafka may not hold earlier records, since retention deletes them.
    below = F.lit(False)
    for partition, offset in starting.items():
        in_partition = F.col("partition") == partition
        below = below | (in_partition & (F.col("offset") < offset))
    of_family = master.where((F.col("source") == family) & below)
    latest = F.max(F.unix_millis("happened_at")).alias("latest")
    (found,) = of_family.agg(latest).collect()
    if found.latest is None:
        return None
    return window_start(datetime.fromtimestamp(found.latest / 1000, UTC)) + WINDOW


def refuse_unknown_past(family: str, starting: Offsets, reached: Mapping[int, int]) -> None:
    """Raise TallyError unless the master holds every record below the starting offsets.

    Before that the floor is unknown. `reached`: first offset that the master does not hold yet, by
    partition.
    """
    # A master that lacks the latest of them would give too low a floor, and the query would serve
    # the tail of a window as the whole, as a query without a floor does (seen).
    for partition, offset in sorted(starting.items()):
        if offset > reached.get(partition, 0):
            raise TallyError(
                f"{family} partition {partition}: a query begun at offset {offset} has to know the"
                " records below it, the master dataset holds them up to"
                f" {reached.get(partition, 0)}; let `tally up master` catch up,"
                " or start at lower offsets"
            )


# It lies among Spark's own files in the checkpoint, so restoring or moving the folder includes it.
FILE = "tally-handover.json"


@dataclass(frozen=True)
class StartPosition:
    """Starting offset by topic and partition, and the floors of the query's families.

    The families are those whose views the query keeps.
    """

    offsets: TopicOffsets
    floors: Floors


def load_start_position(checkpoint: Path) -> StartPosition | None:
    """The start position of this checkpoint's query; None if there is none."""
    file = checkpoint / FILE
    if not file.is_file():
        return None
    content = json.loads(file.read_text("utf-8"))
    floors = {
        family: datetime.fromisoformat(floor) if floor else None
        for family, floor in content["floors"].items()
    }
    return StartPosition(parse_offsets(content["starting"]), floors)


def store_start_position(checkpoint: Path, position: StartPosition) -> None:
    """Store the start position with the checkpoint, before the query's first micro-batch.

    The write is atomic.
    """
    floors = {
        family: format_utc(floor) if floor else None for family, floor in position.floors.items()
    }
    text = json.dumps({"starting": {**position.offsets}, "floors": floors})
    checkpoint.mkdir(parents=True, exist_ok=True)
    # Durable: a query whose checkpoint has begun and lost its start position refuses to go on.
    write_atomically(checkpoint / FILE, text, is_durable=True)


def resolve_start_position(
    driver: Driver, query: str, families: Sequence[Family], earliest: TopicOffsets
) -> StartPosition:
    """The start position that is valid for the query of these topics.

    It is stored with the checkpoint before the first micro-batch. `earliest` are the first offsets
    that the topics hold, `families` those whose views the query keeps. A topic that is new to a
    begun query begins at its earliest offset, as in Spark. Raises UnrecoverableError when a
    checkpoint has lost its start position, TallyError when the master cannot determine a floor yet.
    """
    checkpoint = driver.settings.checkpoint(query)
    stored, begun = load_start_position(checkpoint), has_begun(checkpoint)
    # Only the stored position has the window from which on this query has seen everything; a floor
    # computed now is that of another beginning.
    if begun and stored is None:
        raise UnrecoverableError(
            f"checkpoint {checkpoint}: {FILE} is missing;"
            " restore the whole folder, or move it away to begin again"
        )
    # A position without a micro-batch is not reused: Kafka and the master may have moved on since.
    known = stored if begun and stored else StartPosition({}, {})
    added = {topic: first for topic, first in earliest.items() if topic not in known.offsets}
    if not added:
        return known
    given = (
        {}
        if begun
        else {
            topic: driver.start_options.find_offsets(topic, driver.settings.partitions)
            for topic in added
        }
    )
    starting = {topic: given.get(topic) or first for topic, first in added.items()}
    floors = {
        family.name: driver.start_options.find_floor(driver, family, starting[family.topic])
        for family in families
        if family.topic in starting
    }
    position = StartPosition({**known.offsets, **starting}, {**known.floors, **floors})
    # Once a micro-batch has run this position is final: Kafka's first offsets move on with its
    # retention, and the floor must not.
    store_start_position(checkpoint, position)
    return position
