"""How a query begins: by its own record if it has one, else by a new one that is looked up in the master dataset."""

from dataclasses import dataclass
from datetime import datetime

from cassandra.cluster import Session
from pyspark.sql import SparkSession

from speed_layer.checkpoint import has_begun
from speed_layer.floor import FILE, Handover, floor_above, given_offsets, keep_handover, kept_handover, refuse_unknown_past
from speed_layer.source import Offsets
from tally.errors import Refused
from tally.families import Family
from tally.settings import Settings


@dataclass(frozen=True)
class Driver:
    """What one speed driver works with; `given` is the text of --starting-offsets."""

    spark: SparkSession
    session: Session
    settings: Settings
    given: str = "{}"


def settle_handover(driver: Driver, query: str, family: Family | None, earliest: Offsets) -> Handover:
    """The record that the query goes by, kept with its checkpoint before the first micro-batch.

    Raises Refused when a checkpoint has lost its record, TallyError when the master cannot tell the floor yet.
    """
    checkpoint = driver.settings.checkpoint(query)
    kept = kept_handover(checkpoint)
    if has_begun(checkpoint):
        if kept is None:
            raise Refused(f"checkpoint {checkpoint}: {FILE} is missing; restore the whole folder, or move it away to begin anew")
        return kept
    # A record without a micro-batch is not kept: Kafka and the master may have moved on since.
    starting = _starting(driver, query, earliest)
    new = Handover(starting, _floor(driver, family, starting) if family else None)
    keep_handover(checkpoint, new)
    return new


def _starting(driver: Driver, query: str, earliest: Offsets) -> Offsets:
    return given_offsets(driver.given, query, driver.settings.partitions) or earliest


def _floor(driver: Driver, family: Family, starting: Offsets) -> datetime | None:
    settings = driver.settings
    if not settings.floor or not any(starting.values()):
        return None
    rows = driver.session.execute("SELECT partition, until FROM master_position WHERE family = %s", [family.name])
    refuse_unknown_past(family.name, starting, {row.partition: row.until for row in rows})
    master = driver.spark.read.format("delta").load(str(settings.master_path))
    return floor_above(master, family.name, starting)
