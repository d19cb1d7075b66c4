"""`python -m ingest.normaliser`: raw topics to canonical topics and dead letters, exactly once."""

import os
import signal
import sys
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

import structlog

from ingest.normaliser.arrival import Rules
from ingest.normaliser.janitor import Janitor
from ingest.normaliser.normalise import Normaliser, raw_topics
from runtime.connect import NORMALISER_ANCHOR, NORMALISER_GROUP
from runtime.heartbeat import Heartbeat
from runtime.job import run_job
from runtime.processor.build import Job, build_processor
from runtime.processor.faults import Faults
from runtime.processor.rivals import fenced_or_late
from runtime.watchdog import Watchdog
from tally.errors import Fenced
from tally.settings import Settings


def main() -> int:
    """Exit code of the normaliser.

    0 when told to stop, 1 on an error that a new start may heal, 78 when it was refused.
    """
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    stopped, ready = Event(), Event()
    for wanted in (signal.SIGTERM, signal.SIGINT):
        signal.signal(wanted, lambda _number, _frame: stopped.set())

    def work() -> None:
        settings, faults = Settings.load(), Faults.parse(os.environ.get("TALLY_FAULT", ""))
        _touch_when_ready(ready, settings.ready_file)
        run(settings, faults, stopped, ready)

    return run_job("normaliser", work)


def run(settings: Settings, faults: Faults, stopped: Event, ready: Event) -> None:
    """Normalise, and delete raw messages that are read and past their retention, until stopped."""
    topics = raw_topics()
    normaliser = Normaliser(Rules.of(settings), settings.partitions, topics)
    job = Job(
        NORMALISER_GROUP,
        tuple(topics),
        normaliser.process,
        normaliser.event_time,
        slot=settings.normaliser_slot,
        forget=normaliser.forget,
        anchor=NORMALISER_ANCHOR,
    )
    processor, consumer = build_processor(settings, job, faults)
    Thread(
        target=Janitor(settings, job.group, job.topics).run,
        args=(stopped,),
        name="janitor",
        daemon=True,
    ).start()
    heartbeat = Heartbeat(settings.heartbeat_file)
    Watchdog("normaliser", heartbeat).begin(stopped)
    try:
        with closing(consumer):
            processor.run(stopped, ready, faults, heartbeat)
    except Fenced as error:
        raise fenced_or_late(settings, job, error) from error


def _touch_when_ready(ready: Event, file: Path | None) -> None:
    def touch(path: Path) -> None:
        ready.wait()
        path.touch()

    if file:
        Thread(target=touch, args=(file,), daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
