"""A process for tests: copies one topic to another through the processor loop.

`python -m tests.integration.ingest.copier GROUP INPUT OUTPUT [SLOT]`, settings and TALLY_FAULT from
the environment; prints `ready` on stdout when it has its partitions.
"""

import os
import signal
import sys
from collections.abc import Sequence
from threading import Event

import structlog

from runtime.processor.build import Job, build_processor
from runtime.processor.faults import Faults
from runtime.processor.record import Input, Output
from tally.errors import TallyError
from tally.settings import Settings


def copy_job(group: str, source: str, target: str, slot: int = 0) -> Job:
    """The job that copies each record with key and value."""

    def copy(record: Input) -> Sequence[Output]:
        return (Output(target, record.key, record.value),)

    return Job(
        group,
        (source,),
        copy,
        lambda record: record.timestamp_ms / 1000,
        slot,
        anchor="dead-letters",
    )


class _Announced(Event):
    """Says on stdout that the process has its partitions."""

    def set(self) -> None:
        if not self.is_set():
            print("ready", flush=True)
        super().set()


def main(argv: Sequence[str]) -> int:
    """Exit code: 0 when told to stop, 1 on an error."""
    stopped = Event()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    signal.signal(signal.SIGTERM, lambda _number, _frame: stopped.set())
    faults = Faults.parse(os.environ.get("TALLY_FAULT", ""))
    job = copy_job(argv[0], argv[1], argv[2], int(argv[3]) if len(argv) > 3 else 0)
    processor, consumer = build_processor(Settings.load(), job, faults)
    try:
        processor.run(stopped, _Announced(), faults)
    except TallyError as error:
        print(f"copier: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    finally:
        consumer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
