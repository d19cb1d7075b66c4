"""The query of the views: canonical records of all families to rows, in one stateful operator."""

from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from speed_layer.checkpoint_files import Floors
from speed_layer.state.operator import WindowOperator
from speed_layer.state.records import (
    ID_BYTES,
    REPORT_SCHEMA,
    SKIP_REASONS,
    crc_column,
    observe_reports,
    pack_records,
)
from speed_layer.state.sink import MakeSink, RowSink
from tally.config.settings import Settings
from tally.families.family import Family
from tally.people.visits import MINUTE_SECONDS
from tally.spark.frames import by_topic, contributions

QUERY = "views"
# The normaliser accepts events that are minutes ahead. A single event of a future year would close
# every window before it, for good.
MAX_AHEAD = timedelta(days=1)


def start_views(
    records: DataFrame,
    families: Sequence[Family],
    floors: Floors,
    settings: Settings,
    sink: MakeSink = RowSink,
) -> StreamingQuery:
    """Start the query; a micro-batch fails as a whole.

    In:  records: canonical ones of a stream, of the families' topics; floors: first window that may
         be written, by family.
    Out: nothing but the partition reports in Spark's report of each micro-batch: the operator
         writes the rows.
    """
    operator = WindowOperator(families, settings, sink)
    # With many partitions, a task for each that has records would cost more than its work.
    coalesced = records.coalesce(settings.shuffle_partitions)
    # Keyed by partition and not by store or window: a store's records lie in one partition, in one
    # order, and that order decides lateness.
    keyed = pack_records(operator_input(coalesced, families, floors)).groupBy("topic", "partition")
    # No timers: a later record of its partition closes a window, never a clock.
    written = keyed.transformWithStateInPandas(
        operator, REPORT_SCHEMA, outputMode="Update", timeMode="None"
    )
    # The operator has written everything when its reports are read, and they are in Spark's report
    # of the micro-batch: Spark's sink has nothing to store.
    query = observe_reports(written).writeStream.queryName(QUERY)
    query = query.format("noop").outputMode("update")
    query = query.option("checkpointLocation", str(settings.checkpoint(QUERY)))
    # The default is 0: a micro-batch follows the one before at once, and while nothing comes Kafka
    # is polled every 100 ms (session.py).
    return query.trigger(processingTime=f"{settings.trigger_seconds} seconds").start()


def operator_input(records: DataFrame, families: Sequence[Family], floors: Floors) -> DataFrame:
    """The columns of each record that the operator needs, never null.

    In:  canonical records of a stream.
    Out: topic, partition int, offset bigint, crc bigint (CRC-32 of the value), left_out int (why it
         does not count, a place in SKIP_REASONS; unless it is 0 the columns that follow are
         meaningless), store_id, at bigint (milliseconds since 1970), id binary (identity in 16
         bytes), the families' axes and parts.
    """
    events = contributions(records.withColumn("crc", crc_column("value")), *families)
    # Two identities with one digest would be counted as one: with half of SHA-256 that neither
    # happens by chance nor can be forged.
    digest = F.substring(F.unhex(F.sha2("event_id", 256)), 1, ID_BYTES)
    columns = {"at": F.unix_millis("happened_at"), "id": digest, "store_id": F.col("store_id")}
    columns |= {name: F.col(name) for family in families for name in family.fields.texts}
    columns |= {name: F.col(name) for family in families for name in family.fields.numbers}
    defaults = {"id": F.lit(bytes(ID_BYTES)), "store_id": F.lit("")}
    defaults |= {name: F.lit("") for family in families for name in family.fields.texts}
    filled = [
        F.coalesce(column, defaults.get(name, F.lit(0))).alias(name)
        for name, column in columns.items()
    ]
    return events.select(
        "topic",
        "partition",
        "offset",
        "crc",
        _skip_reason(families, floors).alias("left_out"),
        *filled,
    )


def _skip_reason(families: Sequence[Family], floors: Floors) -> Column:
    def is_below(family: Family) -> Column:
        floor = floors.get(family.name)
        if floor is None:
            return F.lit(False)
        if family.reading is None:
            return F.col("happened_at") < F.lit(floor)
        # A presence may reach across the floor: its whole key period is left to the rebuild.
        return F.timestamp_seconds(F.col("period_start") * MINUTE_SECONDS) < F.lit(floor)

    reasons = {
        "unreadable": ~F.col("is_readable"),
        "repeats": F.col("is_repeat"),
        "below_floor": by_topic(families, is_below),
        # Compared with the broker's timestamp and not with the current time: a replay decides as
        # the first run did; otherwise two writers of a window would hold unequal sets.
        "ahead": F.col("happened_at") > F.col("committed_at") + F.lit(MAX_AHEAD),
    }
    left_out = F.lit(0)
    # From the last to the first, so that the first reason that applies is returned.
    for name in reversed(SKIP_REASONS[1:]):
        left_out = F.when(reasons[name], SKIP_REASONS.index(name)).otherwise(left_out)
    return left_out
