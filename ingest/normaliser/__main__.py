"""`python -m ingest.normaliser`: raw topics to canonical topics and dead letters, exactly once."""

import sys
from threading import Event

from ingest.installation.arrival import Rules
from ingest.normaliser.janitor import Janitor
from ingest.normaliser.normalise import Normaliser
from ingest.sources.registry import raw_topics
from runtime.connect import NORMALISER_ANCHOR, NORMALISER_GROUP
from runtime.process.job import run_until_stopped
from runtime.processor.delivery import Failpoints
from runtime.processor.service import BackgroundLoop, ProcessorJob, run_processor
from tally.config.settings import Settings


def main(failpoints: Failpoints = Failpoints()) -> int:
    """Exit code: 0 stopped, 1 an error that a restart may fix, 78 refused."""

    def work(stopped: Event) -> None:
        settings = Settings.load()
        run_processor(settings, normaliser_job(settings), failpoints, stopped)

    return run_until_stopped("normaliser", work)


def normaliser_job(settings: Settings) -> ProcessorJob:
    """The job that normalises, and deletes raw messages that are read and past their retention."""
    topics = raw_topics()
    names = tuple(topics)
    return ProcessorJob(
        NORMALISER_GROUP,
        names,
        Normaliser(Rules.from_settings(settings), settings.partitions, topics),
        slot=settings.normaliser_slot,
        anchor=NORMALISER_ANCHOR,
        background=(BackgroundLoop("janitor", Janitor(settings, NORMALISER_GROUP, names).run),),
    )


if __name__ == "__main__":
    sys.exit(main())
