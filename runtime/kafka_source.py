"""Kafka as a source of Spark: committed records only.

Java's default is to read the records of open and aborted transactions too, which is why no job
makes a source of its own.
"""

import json

from pyspark.sql import DataFrame, SparkSession

from runtime.checkpoint import TopicOffsets, text_of
from tally.settings import Settings

# A record that is gone ends the query.
_COMMITTED = {"kafka.isolation.level": "read_committed", "failOnDataLoss": "true"}


def committed_stream(
    spark: SparkSession, settings: Settings, starting: TopicOffsets, **options: str
) -> DataFrame:
    """The committed records of some topics as they come.

    In:  starting: first offset of each partition, for a query without a checkpoint; `options` of
         the source beside these. minPartitions and maxRecordsPerPartition are not among them: they
         would split a partition over tasks.
    Out: the Kafka source's columns (key, value, topic, partition, offset, timestamp).
    """
    reader = spark.readStream.format("kafka").options(**_COMMITTED)
    reader = reader.option("kafka.bootstrap.servers", settings.kafka)
    reader = reader.option("subscribe", ",".join(starting))
    return reader.option("startingOffsets", text_of(starting)).options(**options).load()


def committed_records(
    spark: SparkSession, settings: Settings, starting: TopicOffsets, ending: TopicOffsets
) -> DataFrame:
    """The committed records in [starting, ending) of the partitions that are named.

    Out: the Kafka source's columns; markers of transactions and aborted records are no rows.
    """
    named = json.dumps({topic: sorted(places) for topic, places in starting.items()})
    reader = spark.read.format("kafka").options(**_COMMITTED)
    reader = reader.option("kafka.bootstrap.servers", settings.kafka).option("assign", named)
    reader = reader.option("startingOffsets", text_of(starting))
    return reader.option("endingOffsets", text_of(ending)).load()
