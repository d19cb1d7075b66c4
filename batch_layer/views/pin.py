"""What a rebuild is computed from: one version of the master dataset, and up to when that is everything."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_layer.master.positions import held_by, kept_offsets
from batch_layer.master.table import read_version
from batch_layer.views.pointer import Pointer
from tally.errors import TallyError
from tally.families import Family
from tally.settings import Settings
from tally.windows import window_start


@dataclass(frozen=True)
class Pin:
    """A version of the master dataset; by partition of the family's topic the first offset not in it, and the instant up to
    which every committed record is in it."""

    version: int
    until: Mapping[int, int]
    through: Mapping[int, datetime]

    @property
    def covered_until(self) -> datetime:
        """Windows that end at or before it are covered for every store."""
        return window_start(min(self.through.values()))

    def with_earlier(self, published: Iterable[Pointer]) -> "Pin":
        """The pin that also claims what published generations with no later offsets could: all that is in them is in this one."""
        earlier = [pointer.through for pointer in published if pointer.is_within(self.until)]
        through = {
            number: max([instant, *(claims[number] for claims in earlier if number in claims)]) for number, instant in self.through.items()
        }
        return replace(self, through=through)


def pin_master(spark: SparkSession, settings: Settings, family: Family, now: datetime) -> tuple[Pin, DataFrame]:
    """The newest version pinned, and the family's records in it. `now` was read before this call."""
    if not DeltaTable.is_deltatable(str(settings.master_path)):
        raise TallyError(f"no master dataset in {settings.master_path}; start its ingest with `tally up master`")
    # The end of the topic is asked after `now`: what it holds then includes everything committed until `now`.
    ends = {number: end for number, (_, end) in kept_offsets(settings, [family.topic])[family.topic].items()}
    version = DeltaTable(str(settings.master_path)).version()
    until = held_by(settings.master_path, version).until.get(family.topic, {})
    records = read_version(spark, settings.master_path, version).where(F.col("source") == family.name)
    if any(until.get(number, 0) < end for number, end in ends.items()):
        newest = {
            row["partition"]: row["newest"] for row in records.groupBy("partition").agg(F.max("committed_at").alias("newest")).collect()
        }
    else:
        newest = {}
    through = {number: now if until.get(number, 0) >= end else _utc(newest.get(number)) for number, end in ends.items()}
    return Pin(version, {number: until.get(number, 0) for number in ends}, through), records


def _utc(instant: datetime | None) -> datetime:
    """Spark hands out local time; nothing at all is covered by a partition of which nothing is held."""
    return datetime.fromtimestamp(0, UTC) if instant is None else instant.astimezone(UTC)
