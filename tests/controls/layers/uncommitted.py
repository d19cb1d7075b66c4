"""Wrong on purpose: `python -m tests.controls.layers.uncommitted` is the shipped job that reads
what no transaction has committed, as a Kafka source of Spark's does that is told nothing."""

import sys

from pyspark.sql import DataFrame, SparkSession

from runtime.kafka.offsets import TopicOffsets, format_offsets
from speed_layer.job import main
from tally.config.settings import Settings
from tally.spark.frames import canonical_records
from tests.controls.guard import refuse_outside_tests


def uncommitted_stream(
    spark: SparkSession, settings: Settings, starting: TopicOffsets, most_records: int
) -> DataFrame:
    """As speed_layer.session.read_canonical_stream(), but of all that was ever sent."""
    refuse_outside_tests(settings)
    reader = spark.readStream.format("kafka").option("subscribe", ",".join(starting))
    reader = reader.option("kafka.bootstrap.servers", settings.kafka)
    reader = reader.option("startingOffsets", format_offsets(starting))
    return canonical_records(reader.option("maxOffsetsPerTrigger", str(most_records)).load())


if __name__ == "__main__":
    refuse_outside_tests(Settings.load())
    sys.exit(main(read=uncommitted_stream))
