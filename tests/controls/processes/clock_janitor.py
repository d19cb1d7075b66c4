"""Wrong on purpose: deletes raw messages by the clock, read or not, as a topic's own retention
does."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import override

from ingest.normaliser.janitor import Janitor
from runtime.connect import kafka_consumer
from runtime.kafka.topics import read_ends
from tally.config.settings import Settings
from tests.controls.guard import refuse_outside_tests


class ClockJanitor(Janitor):
    """A janitor that believes that everything is read."""

    def __init__(
        self,
        settings: Settings,
        group: str,
        topics: Sequence[str],
        now: Callable[[], float] = time.time,
    ) -> None:
        refuse_outside_tests(settings)
        super().__init__(settings, group, topics, now)

    @override
    def _read_committed_offsets(self, admin: Any) -> dict[tuple[str, int], int]:
        with kafka_consumer(self._settings, "clock-janitor") as consumer:
            of_topics = read_ends(consumer, self._topics, 30)
        return {
            (topic, number): end + 1
            for topic, of in of_topics.items()
            for number, end in of.items()
        }
