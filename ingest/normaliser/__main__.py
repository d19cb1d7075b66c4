"""`python -m ingest.normaliser`: raw topics to canonical topics and dead letters, exactly once."""

import os
import signal
import sys
from pathlib import Path
from threading import Event, Thread

import structlog
from confluent_kafka import KafkaException

from ingest.normaliser.arrival import Rules
from ingest.normaliser.normalise import Normaliser, raw_topics
from ingest.processor.build import Job, build_processor
from ingest.processor.faults import Faults
from tally.connect import NORMALISER_GROUP
from tally.errors import TallyError
from tally.settings import Settings


def main() -> int:
    """Exit code: 0 when told to stop, 1 on an error that a new start may heal."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    stopped, ready = Event(), Event()
    for wanted in (signal.SIGTERM, signal.SIGINT):
        signal.signal(wanted, lambda _number, _frame: stopped.set())
    try:
        settings, faults = Settings.load(), Faults.parse(os.environ.get("TALLY_FAULT", ""))
        _touch_when_ready(ready, os.environ.get("TALLY_READY_FILE"))
        run(settings, faults, stopped, ready)
    except TallyError as error:
        print(f"normaliser: {error}", file=sys.stderr)
        return 1
    except KafkaException as error:
        print(f"normaliser: Kafka: {error.args[0].str()}; `tally doctor` looks for the cause", file=sys.stderr)
        return 1
    return 0


def run(settings: Settings, faults: Faults, stopped: Event, ready: Event) -> None:
    """Normalise until stopped."""
    topics = raw_topics()
    normaliser = Normaliser(Rules.of(settings), settings.partitions, topics)
    job = Job(NORMALISER_GROUP, tuple(topics), normaliser.process, normaliser.event_time)
    processor, consumer = build_processor(settings, job, faults)
    try:
        processor.run(stopped, ready, faults)
    finally:
        consumer.close()


def _touch_when_ready(ready: Event, file: str | None) -> None:
    def touch(path: Path) -> None:
        ready.wait()
        path.touch()

    if file:
        Thread(target=touch, args=(Path(file),), daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
