"""A processor as a separate process: heartbeat, watchdog, background loops, and fencing."""

from collections.abc import Callable
from contextlib import closing
from threading import Event, Thread

from runtime.process.heartbeat import Heartbeat
from runtime.process.job import NotifyingEvent, signal_ready
from runtime.process.watchdog import Watchdog
from runtime.processor.build import ProcessorJob, build_processor
from runtime.processor.commit.failpoints import Failpoints
from runtime.processor.loop import Processor
from runtime.processor.rivals import classify_fencing
from tally.config.settings import Settings
from tally.errors import ProducerFenced

BuildProcessor = Callable[[Settings, ProcessorJob, Failpoints], Processor]


def run_processor(
    settings: Settings,
    job: ProcessorJob,
    failpoints: Failpoints,
    stopped: Event,
    build: BuildProcessor = build_processor,
) -> None:
    """Process until stopped; says that it is ready once it has partitions.

    Raises ProducerFenced when a successor has taken over, TallyError when it cannot go on.
    """
    processor = build(settings, job, failpoints)
    # Daemon threads: a loop may wait half a minute for the brokers, and must not delay the exit.
    for loop in job.background:
        Thread(
            target=loop.run,
            args=(stopped,),
            name=loop.name,
            daemon=True,
        ).start()
    heartbeat = Heartbeat(settings.heartbeat_file)
    Watchdog(job.group, heartbeat).start(stopped)
    ready = NotifyingEvent(lambda: signal_ready(settings))
    try:
        with closing(processor):
            processor.run(stopped, ready, failpoints, heartbeat)
    # Brokers end a transaction that took too long with the same error; that allows a restart.
    except ProducerFenced as error:
        raise classify_fencing(settings, job, error) from error
