"""How a query begins: by its own record if it has one, else by a new one.

A new one is looked up in the master dataset.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from cassandra.cluster import Session
from pyspark.sql import SparkSession

from runtime.checkpoint import has_begun
from runtime.offsets import Offsets, TopicOffsets
from speed_layer.floor import (
    FILE,
    Handover,
    floor_above,
    given_offsets,
    keep_handover,
    kept_handover,
    refuse_unknown_past,
)
from speed_layer.source import ReadStream, canonical_stream
from tally.errors import Refused
from tally.families import Family
from tally.settings import Settings

FindFloor: TypeAlias = "Callable[[Driver, Family, Offsets], datetime | None]"


def floor_of(driver: "Driver", family: Family, starting: Offsets) -> datetime | None:
    """The floor of a family's view for a query that begins there.

    Raises TallyError when the master cannot tell it yet.
    """
    # From the very first records on every window is seen whole.
    if not any(starting.values()):
        return None
    # As the ingest notes it, and not where the table ends: behind its last record may lie markers
    # of transactions, which are no rows.
    rows = driver.session.execute(
        "SELECT partition, until FROM master_position WHERE family = %s", [family.name]
    )
    refuse_unknown_past(family.name, starting, {row.partition: row.until for row in rows})
    master = driver.spark.read.format("delta").load(str(driver.settings.master_path))
    return floor_above(master, family.name, starting)


@dataclass(frozen=True)
class Begin:
    """How queries without a checkpoint begin, and how any query reads.

    `given` is the text of --starting-offsets.
    """

    given: str = "{}"
    find_floor: FindFloor = floor_of
    # With a checkpoint too: Spark goes on at its offsets, but the source is made at each start.
    read: ReadStream = canonical_stream


@dataclass(frozen=True)
class Driver:
    """What one speed driver works with."""

    spark: SparkSession
    session: Session
    settings: Settings
    begin: Begin = Begin()


def settle_handover(
    driver: Driver, query: str, families: Sequence[Family], earliest: TopicOffsets
) -> Handover:
    """The record that the query of these topics goes by.

    It is kept with the checkpoint before the first micro-batch. `earliest` are the first offsets
    that the topics hold, `families` those whose views the query keeps. A topic that a begun query
    has not had before begins there, as Spark does. Raises Refused when a checkpoint has lost its
    record, TallyError when the master cannot tell a floor yet.
    """
    checkpoint = driver.settings.checkpoint(query)
    kept, begun = kept_handover(checkpoint, [*earliest]), has_begun(checkpoint)
    # Only that record knows from which window on this query has seen everything; a floor looked up
    # now is that of another beginning.
    if begun and kept is None:
        raise Refused(
            f"checkpoint {checkpoint}: {FILE} is missing;"
            " restore the whole folder, or move it away to begin anew"
        )
    # A record without a micro-batch is not kept: Kafka and the master may have moved on since.
    known = kept if begun and kept else Handover({}, {})
    added = {topic: first for topic, first in earliest.items() if topic not in known.starting}
    if not added:
        return known
    given = (
        {}
        if begun
        else {
            topic: given_offsets(driver.begin.given, topic, driver.settings.partitions)
            for topic in added
        }
    )
    starting = {topic: given.get(topic) or first for topic, first in added.items()}
    floors = {
        family.name: driver.begin.find_floor(driver, family, starting[family.topic])
        for family in families
        if family.topic in starting
    }
    settled = Handover({**known.starting, **starting}, {**known.floors, **floors})
    # Once a micro-batch has run this record holds for good: Kafka's first offsets move on with its
    # retention, and the floor must not.
    keep_handover(checkpoint, settled)
    return settled
