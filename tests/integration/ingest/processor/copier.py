"""A process for tests: copies one topic to another through the processor loop.

`python -m tests.integration.ingest.processor.copier GROUP INPUT OUTPUT [SLOT [CRASH]]`, settings
from the environment; prints `ready` on stdout when it has its partitions. CRASH: as
tests.controls.processes.crashing has it.
"""

import signal
import sys
from collections.abc import Iterable, Sequence
from threading import Event

import structlog

from runtime.process.job import NotifyingEvent
from runtime.processor.delivery import Failpoints
from runtime.processor.service import ProcessorJob, build_processor
from runtime.processor.step import Input, Output, Step
from tally.config.settings import Settings
from tally.errors import TallyError
from tests.controls.processes.crashing import Crash


class Copy(Step):
    """Each record with key and value, in the order of their stamps."""

    def __init__(self, target: str) -> None:
        self._target = target

    def process(self, record: Input) -> Sequence[Output]:
        return (Output(self._target, record.key, record.value),)

    def restore(self, _state: Iterable[Input]) -> None: ...

    def event_time(self, record: Input) -> float:
        return record.timestamp_ms / 1000


def copy_job(group: str, source: str, target: str, slot: int = 0) -> ProcessorJob:
    """The job that copies each record."""
    return ProcessorJob(group, (source,), Copy(target), slot, anchor="dead-letters")


def main(argv: Sequence[str]) -> int:
    """Exit code of copying."""
    slot = int(argv[3]) if len(argv) > 3 else 0
    return run_job(copy_job(argv[0], argv[1], argv[2], slot), *argv[4:])


def run_job(job: ProcessorJob, crash: str = "", *, failpoints: Failpoints | None = None) -> int:
    """Exit code: 0 when told to stop, 1 on an error; `failpoints` in the place of a crash."""
    stopped = Event()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    signal.signal(signal.SIGTERM, lambda _number, _frame: stopped.set())
    settings = Settings.load()
    failpoints = failpoints or (Crash.of(crash, settings) if crash else Failpoints())
    processor = build_processor(settings, job, failpoints)
    try:
        processor.run(stopped, NotifyingEvent(lambda: print("ready", flush=True)), failpoints)
    except TallyError as error:
        print(f"copier: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    finally:
        processor.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
