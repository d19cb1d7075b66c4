"""The fetched JVM parts do what they are for."""

from pathlib import Path

from pyspark.sql import SparkSession

from ops.local import artifacts
from tally.config.settings import Settings
from tests.support.clients.producers import connected_producer


def test_every_jar_has_the_recorded_hash(settings: Settings) -> None:
    found = {part: artifacts.hashes(settings.cache / "jars" / part) for part in artifacts.PARTS}

    assert found == artifacts.read_lock_file()


def test_session_writes_and_reads_a_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.format("delta").save(str(tmp_path / "table"))

    rows = spark.read.format("delta").load(str(tmp_path / "table")).orderBy("id").collect()

    assert [row.id for row in rows] == [0, 1, 2]


def test_session_reads_a_topic(spark: SparkSession, settings: Settings, topic: str) -> None:
    producer = connected_producer(settings)
    producer.produce(topic, b"a receipt", partition=0)
    producer.flush(30)

    rows = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", settings.kafka)
        .option("subscribe", topic)
        .load()
        .selectExpr("cast(value as string) as value")
        .collect()
    )

    assert [row.value for row in rows] == ["a receipt"]
