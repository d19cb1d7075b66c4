"""The sales query on several executors: `python -m tests.integration.speed.cluster_run TOPIC`, with
settings from TALLY_*.

A process of its own, because a test process has one Spark session and that one is local.
"""

import sys

from runtime.registry.sources import SALES
from speed_layer.session import build_streaming_session, read_canonical_stream
from speed_layer.views import start_views
from tally.config.settings import Settings
from tests.integration.speed.query import OnTopic


def main(topic: str) -> int:
    """Exit code 0 once everything on the topic is in Cassandra."""
    settings = Settings.load()
    spark = build_streaming_session(settings)
    records = read_canonical_stream(
        spark,
        settings,
        {topic: dict.fromkeys(range(settings.partitions), 0)},
        settings.micro_batch_records,
    )
    query = start_views(records, [OnTopic.of(SALES, topic)], {}, settings)
    query.processAllAvailable()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
