"""A processor as a separate process, with heartbeat, watchdog, and the error of a fenced one."""

from collections.abc import Callable
from contextlib import closing
from threading import Event

from runtime.heartbeat import Heartbeat
from runtime.job import Announced, say_ready
from runtime.processor.build import ProcessorJob, build_processor
from runtime.processor.loop import Processor
from runtime.processor.moments import Moments
from runtime.processor.rivals import fenced_or_late
from runtime.watchdog import Watchdog
from tally.errors import Fenced
from tally.settings import Settings

Build = Callable[[Settings, ProcessorJob, Moments], Processor]


def serve(
    settings: Settings,
    job: ProcessorJob,
    moments: Moments,
    stopped: Event,
    build: Build = build_processor,
) -> None:
    """Process until stopped; says that it is ready once it has partitions.

    Raises Fenced when a successor has taken over, TallyError when it cannot go on.
    """
    processor = build(settings, job, moments)
    heartbeat = Heartbeat(settings.heartbeat_file)
    Watchdog(job.group, heartbeat).begin(stopped)
    ready = Announced(lambda: say_ready(settings))
    try:
        with closing(processor):
            processor.run(stopped, ready, moments, heartbeat)
    # Brokers end a transaction that took too long with the same error; that allows a restart.
    except Fenced as error:
        raise fenced_or_late(settings, job, error) from error
