"""Kafka as a source of Spark: committed records only.

Java's default is to read the records of open and aborted transactions too, which is why no job
makes a source of its own.
"""

import json

from pyspark.sql import DataFrame, SparkSession

from runtime.offsets import TopicOffsets, text_of
from tally.settings import Settings

# A record that is gone ends the query: the source's other way is to go on, and to warn in the log.
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
    # With minPartitions or maxRecordsPerPartition several tasks read one partition: what took its
    # records as they came has then counted the later of two payloads (seen).
    reader = spark.readStream.format("kafka").options(**_COMMITTED)
    reader = reader.option("kafka.bootstrap.servers", settings.kafka)
    # No group id: Spark makes one for each query, and two of one group would part the records.
    reader = reader.option("subscribe", ",".join(starting))
    # Always told: left to itself a new query begins at the end, and what lies before is lost in
    # silence.
    return reader.option("startingOffsets", text_of(starting)).options(**options).load()


def committed_records(
    spark: SparkSession, settings: Settings, starting: TopicOffsets, ending: TopicOffsets
) -> DataFrame:
    """The committed records in [starting, ending) of the partitions that are named.

    In:  starting, ending: offsets by topic and partition; ending is exclusive.
    Out: the Kafka source's columns; markers of transactions and aborted records are no rows.
    """
    named = json.dumps({topic: sorted(places) for topic, places in starting.items()})
    reader = spark.read.format("kafka").options(**_COMMITTED)
    reader = reader.option("kafka.bootstrap.servers", settings.kafka).option("assign", named)
    reader = reader.option("startingOffsets", text_of(starting))
    return reader.option("endingOffsets", text_of(ending)).load()
