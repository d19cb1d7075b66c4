"""Kafka as a source of Spark: committed records only.

Java's default also reads those of open and aborted transactions: all jobs use this module.
"""

import json

from pyspark.sql import DataFrame, SparkSession

from runtime.kafka.offsets import TopicOffsets, format_offsets
from tally.config.settings import Settings

# A lost record fails the query: otherwise the source goes on and only warns in the log.
_COMMITTED = {"kafka.isolation.level": "read_committed", "failOnDataLoss": "true"}


def read_committed_stream(
    spark: SparkSession, settings: Settings, starting: TopicOffsets, **options: str
) -> DataFrame:
    """The committed records of some topics as a stream.

    In:  starting: first offset of each partition, for a query without a checkpoint; further
         `options` of the source. minPartitions and maxRecordsPerPartition must not be among them:
         they would split a partition over tasks.
    Out: the Kafka source's columns (key, value, topic, partition, offset, timestamp).
    """
    # With minPartitions or maxRecordsPerPartition several tasks read one partition: an operator
    # that relied on its order has then counted the later of two payloads (seen).
    reader = spark.readStream.format("kafka").options(**_COMMITTED)
    reader = reader.option("kafka.bootstrap.servers", settings.kafka)
    # No group id: Spark makes one for each query, and two queries of one group would each get a
    # share of the records.
    reader = reader.option("subscribe", ",".join(starting))
    # The start is always explicit: by default a new query begins at the end and silently skips
    # earlier records.
    return reader.option("startingOffsets", format_offsets(starting)).options(**options).load()


def read_committed_records(
    spark: SparkSession, settings: Settings, starting: TopicOffsets, ending: TopicOffsets
) -> DataFrame:
    """The committed records in [starting, ending) of the named partitions.

    In:  starting, ending: offsets by topic and partition; ending is exclusive.
    Out: the Kafka source's columns; transaction markers and aborted records give no rows.
    """
    named = json.dumps({topic: sorted(places) for topic, places in starting.items()})
    reader = spark.read.format("kafka").options(**_COMMITTED)
    reader = reader.option("kafka.bootstrap.servers", settings.kafka).option("assign", named)
    reader = reader.option("startingOffsets", format_offsets(starting))
    return reader.option("endingOffsets", format_offsets(ending)).load()
