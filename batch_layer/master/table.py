"""The Delta table of the master dataset: created once, appended to, never changed."""

import json
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from batch_layer.master.positions import Held
from schemas.loader import master_schema
from tally.errors import DataLoss

APP_ID = "tally-master-ingest"
_IDENTITY = T.StructType([T.StructField(name, T.StringType()) for name in ("store_id", "event_id", "happened_at", "fingerprint")])


def create_table(spark: SparkSession, path: Path) -> None:
    """The empty table with the columns of schemas/master/events.json, unless it is there; append-only from its first commit."""
    if DeltaTable.is_deltatable(str(path)):
        return
    schema = master_schema()
    columns = ", ".join(f"`{column['name']}` {column['type']}" for column in schema["columns"])
    spark.sql(
        f"CREATE TABLE delta.`{path.absolute()}` ({columns}) USING DELTA PARTITIONED BY ({', '.join(schema['partitioned_by'])}) "
        "TBLPROPERTIES ('delta.appendOnly' = 'true')"
    )


def master_records(kafka: DataFrame) -> DataFrame:
    """Canonical records as the master keeps them.

    In:  the Kafka source's columns (topic, partition, offset, timestamp, value binary).
    Out: the columns of schemas/master/events.json.
    """
    text = F.col("value").cast("string")
    parsed = kafka.select("*", text.alias("json"), F.from_json(text, _IDENTITY).alias("event"))
    happened_at = F.col("event.happened_at").cast("timestamp")
    return parsed.select(
        F.col("topic").alias("source"), F.to_date(happened_at).alias("event_date"), "event.store_id", "event.event_id",
        happened_at.alias("happened_at"), "event.fingerprint", "partition", "offset", F.col("timestamp").alias("committed_at"),
        F.col("json").alias("value"),
    )  # fmt: skip


def append(records: DataFrame, path: Path, after: Held) -> None:
    """Append records that the table does not hold, and what it holds after them, in one commit.

    The fixed application id makes two ingesters conflict; its version is the table's, so that Delta never skips an append in
    silence. Raises DataLoss when the commit is not there afterwards: another ingester was at work.
    """
    version = DeltaTable(str(path)).version()
    note = after.as_metadata()
    # One file a day: the rows of a day go to one task.
    writer = records.repartition("source", "event_date").write.format("delta").mode("append")
    writer.option("userMetadata", note).option("txnAppId", APP_ID).option("txnVersion", version + 1).save(str(path))
    newest = DeltaTable(str(path)).history(1)[0]
    if newest["version"] != version + 1 or json.loads(newest.get("userMetadata") or "null") != json.loads(note):
        raise DataLoss(f"master dataset {path}: version {version + 1} is not this append; stop the other ingester and start again")


def read_version(spark: SparkSession, path: Path, version: int) -> DataFrame:
    """The table as of one version."""
    return spark.read.format("delta").option("versionAsOf", version).load(str(path))
