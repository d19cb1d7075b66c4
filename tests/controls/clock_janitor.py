"""Wrong on purpose: deletes raw messages by the clock, read or not, as a topic's own retention
does."""

from typing import Any

from confluent_kafka import TopicPartition

from ingest.normaliser.janitor import Janitor
from runtime.connect import kafka_consumer


class ClockJanitor(Janitor):
    """A janitor that believes that everything is read."""

    def _committed(self, admin: Any) -> dict[tuple[str, int], int]:
        consumer = kafka_consumer(self._settings, "clock-janitor")
        topics = admin.list_topics(timeout=30).topics
        places = [(name, number) for name in self._topics for number in topics[name].partitions]
        ends = {
            place: consumer.get_watermark_offsets(TopicPartition(*place), timeout=30)[1]
            for place in places
        }
        consumer.close()
        return {place: end + 1 for place, end in ends.items()}
