"""The pin of a rebuild: its input.

It is one version of the master dataset, and the instant up to which that version is complete.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_layer.master.positions import read_extent
from batch_layer.master.table import read_version
from batch_layer.views.plan.arrivals import (
    UNKNOWN_PAST,
    oldest_canonical,
    oldest_raw,
    stable_offsets,
)
from schemas.loader import topics
from tally.config.settings import Settings
from tally.errors import TallyError
from tally.families.family import Family
from tally.families.generation import Generation


@dataclass(frozen=True)
class Pin:
    """A version of the master dataset and its extent, by partition of the family's topic.

    until: the first offset not in it; through: the instant up to which every record that had
    arrived is in it.
    """

    version: int
    until: Mapping[int, int]
    through: Mapping[int, datetime]

    def with_earlier(self, published: Iterable[Generation]) -> "Pin":
        """This pin with the claims of published generations whose offsets are no later.

        Every record in such a generation is also in this pin.
        """
        earlier = [pointer.through for pointer in published if pointer.is_within(self.until)]
        through = {
            number: max([instant, *(claims[number] for claims in earlier if number in claims)])
            for number, instant in self.through.items()
        }
        return replace(self, through=through)


def pin_master(
    spark: SparkSession, settings: Settings, family: Family, now: datetime
) -> tuple[Pin, DataFrame]:
    """Pin the newest version and return it with the family's records.

    In:  now: by the brokers' clock, read before this call.
    Out: offsets and instants (UTC) by partition; the columns of schemas/master/events.json.

    Raises TallyError when there is no master dataset, or Kafka does not answer.
    """
    path, topic = settings.master_path, family.topic
    if not DeltaTable.is_deltatable(str(path)):
        raise TallyError(f"no master dataset in {path}; start its ingest with `tally up master`")
    # The places are read in the order in which a record travels, so that none slips from one place
    # to the next unseen: a record that had arrived until `now` waits before the normaliser, or in
    # an open transaction, or lies before the stable ends of the canonical topic.
    waiting = oldest_raw(settings, topics()[topic]["raw"]) or now
    retained, still_open = stable_offsets(settings, topic)
    # Read after the ends of the topics: the master can only have advanced since.
    version = DeltaTable(str(path)).version()
    held = read_extent(path, version).until.get(topic, {})
    # A transaction that does not end hides the records behind it: nothing is claimed for its
    # partition.
    unheld = oldest_canonical(spark, settings, topic, held, retained) | dict.fromkeys(
        still_open, UNKNOWN_PAST
    )
    # The oldest waiting record of all places decides.
    through = {number: min(now, waiting, unheld.get(number, now)) for number in retained}
    records = read_version(spark, path, version).where(F.col("source") == family.name)
    return Pin(
        version,
        {number: held.get(number, 0) for number in retained},
        through,
    ), records
