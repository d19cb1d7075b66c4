"""The floor of a query without a checkpoint: it must not write windows that begin before it.

Docs: docs/guarantees.md.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.kafka.offsets import Offsets
from speed_layer.input.session import Driver
from tally.errors import TallyError
from tally.families.family import Family
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
