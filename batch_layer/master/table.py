"""The Delta table of the master dataset: created once, appended to, never changed."""

from functools import reduce
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_layer.master.positions import MasterExtent, Snapshot, read_extent
from runtime.registry.sources import FAMILIES
from schemas.loader import master_schema
from tally.errors import AlreadyRunning
from tally.spark.record_columns import is_readable

APP_ID = "tally-master-ingest"
_IDENTITY = "store_id string, event_id string, happened_at string, fingerprint string"


def create_table(spark: SparkSession, path: Path) -> None:
    """Create the empty table with the columns of schemas/master/events.json, unless it exists.

    The table is append-only from its first commit.
    """
    if DeltaTable.is_deltatable(str(path)):
        return
    schema = master_schema()
    columns = ", ".join(f"`{column['name']}` {column['type']}" for column in schema["columns"])
    spark.sql(
        f"CREATE TABLE delta.`{path.absolute()}` ({columns}) USING DELTA"
        f" PARTITIONED BY ({', '.join(schema['partitioned_by'])})"
        # Delta itself then refuses to delete or change a row (seen).
        " TBLPROPERTIES ('delta.appendOnly' = 'true')"
    )


def master_records(kafka: DataFrame) -> DataFrame:
    """Canonical records in the master's columns.

    A record that no layer can read has a null identity, and lies on the day of its arrival.

    In:  the Kafka source's columns (topic, partition, offset, timestamp, value binary): any bytes,
         or none.
    Out: the columns of schemas/master/events.json, and sha256 (hex) of the record's bytes.
    """
    text = F.col("value").cast("string")
    parsed = kafka.select(
        "*", _is_readable(text).alias("is_readable"), F.from_json(text, _IDENTITY).alias("event")
    )
    happened_at = _null_unless_readable(F.col("event.happened_at").try_cast("timestamp"))
    store_id, event_id, fingerprint = (
        _null_unless_readable(F.col(f"event.{name}")).alias(name)
        for name in ("store_id", "event_id", "fingerprint")
    )
    digest = F.sha2(F.coalesce("value", F.lit(b"")), 256)
    return parsed.select(
        F.col("topic").alias("source"),
        # Never null: a record without a day made the append fail at every start (seen).
        F.to_date(F.coalesce(happened_at, "timestamp")).alias("event_date"),
        store_id,
        event_id,
        happened_at.alias("happened_at"),
        fingerprint,
        "partition",
        "offset",
        F.col("timestamp").alias("committed_at"),
        # A Spark string must be valid UTF-8; the digest beside it is of the bytes that came.
        F.make_valid_utf8(text).alias("value"),
        digest.alias("sha256"),
    )


def _is_readable(text: Column) -> Column:
    topic, families = F.col("topic"), FAMILIES.values()
    by_family = ((topic == family.topic) & is_readable(text, family) for family in families)
    return reduce(Column.__or__, by_family)


def _null_unless_readable(value: Column) -> Column:
    return F.when(F.col("is_readable"), value)


def append(records: DataFrame, path: Path, seen: Snapshot, after: MasterExtent) -> None:
    """Append records that the table lacked when it was `seen`.

    The offsets held after them (`after`) go into the same commit. The fixed application id makes
    two ingesters conflict, and its version is one above that of the snapshot: Delta skips the
    append if another ingester has committed since. Raises AlreadyRunning when it has: a restart
    continues where the table ends by then.

    In:  master_records().
    Out: nothing but a new version of the table.
    """
    # The rows of a day go to one task, which writes one file per day.
    by_day = records.drop("sha256").repartition("source", "event_date")
    writer = by_day.write.format("delta").mode("append")
    writer = writer.option("userMetadata", after.to_metadata()).option("txnAppId", APP_ID)
    writer.option("txnVersion", seen.version + 1).save(str(path))
    # Delta skips silently: only the table shows whether it did.
    if read_extent(path) != after:
        raise AlreadyRunning(
            f"master dataset {path}: another ingester has appended since version {seen.version};"
            " stop it, then start again"
        )


def read_version(spark: SparkSession, path: Path, version: int) -> DataFrame:
    """The table as of one version.

    In:  path of the table, one of its versions.
    Out: the columns of schemas/master/events.json.
    """
    return spark.read.format("delta").option("versionAsOf", version).load(str(path))
