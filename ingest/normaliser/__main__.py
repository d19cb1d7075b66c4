"""`python -m ingest.normaliser`: raw topics to canonical topics and dead letters, exactly once."""

import sys
from contextlib import closing
from threading import Event, Thread

from ingest.installation.arrival import Rules
from ingest.normaliser.janitor import Janitor
from ingest.normaliser.normalise import Normaliser
from ingest.sources.registry import raw_topics
from runtime.connect import NORMALISER_ANCHOR, NORMALISER_GROUP
from runtime.process.heartbeat import Heartbeat
from runtime.process.job import NotifyingEvent, run_until_stopped, signal_ready
from runtime.process.watchdog import Watchdog
from runtime.processor.build import ProcessorJob, build_processor
from runtime.processor.commit.failpoints import Failpoints
from runtime.processor.rivals import classify_fencing
from tally.config.settings import Settings
from tally.errors import ProducerFenced


def main(moments: Failpoints = Failpoints()) -> int:
    """Exit code of the normaliser.

    0 when it was stopped, 1 on an error that a restart may fix, 78 when it was refused.
    """

    def work(stopped: Event) -> None:
        settings = Settings.load()
        run(settings, moments, stopped, NotifyingEvent(lambda: signal_ready(settings)))

    return run_until_stopped("normaliser", work)


def run(settings: Settings, moments: Failpoints, stopped: Event, ready: Event) -> None:
    """Normalise, and delete raw messages that are read and past their retention, until stopped.

    Raises ProducerFenced when a successor has taken over, TallyError when it cannot go on.
    """
    topics = raw_topics()
    normaliser = Normaliser(Rules.from_settings(settings), settings.partitions, topics)
    job = ProcessorJob(
        NORMALISER_GROUP,
        tuple(topics),
        normaliser,
        slot=settings.normaliser_slot,
        anchor=NORMALISER_ANCHOR,
    )
    processor = build_processor(settings, job, moments)
    # A daemon thread: a sweep may wait half a minute for the brokers, and must not delay the exit.
    Thread(
        target=Janitor(settings, job.group, job.topics).run,
        args=(stopped,),
        name="janitor",
        daemon=True,
    ).start()
    heartbeat = Heartbeat(settings.heartbeat_file)
    Watchdog("normaliser", heartbeat).start(stopped)
    try:
        with closing(processor):
            processor.run(stopped, ready, moments, heartbeat)
    # Brokers use the same error for a transaction that took too long; that is no reason to stop.
    except ProducerFenced as error:
        raise classify_fencing(settings, job, error) from error


if __name__ == "__main__":
    sys.exit(main())
