"""Wrong on purpose: the shipped stock movements as a process that kills itself.

`python -m tests.controls.processes.crashing_stock PREFIX [after_record:J:NTH | MOMENT:NTH]`,
settings from the environment, topics whose names begin with PREFIX. `after_record` comes when the
brokers have the J-th record of a group that has more than J, of the NTH such group; the moments are
those of runtime/processor/delivery.py.
"""

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from inventory.movements.__main__ import stock_job
from inventory.movements.movement import decode_movement
from inventory.movements.step import StockMovements
from runtime.process.job import run_until_stopped
from runtime.processor.delivery import ExactlyOnce, Failpoints
from runtime.processor.loop import Processor
from runtime.processor.service import ProcessorJob, build_processor, run_processor
from tally.config.settings import Settings
from tests.controls.guard import refuse_outside_tests
from tests.controls.processes.crashing import Crash

AFTER_RECORD = "after_record"


class DyingProducer:
    """A producer whose process dies with it, when the brokers have part of a group."""

    def __init__(self, producer: Any, record: int, nth: int) -> None:
        self._producer, self._record, self._left = producer, record, nth

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def produce(self, topic: str, value: bytes | None, *more: Any, **options: Any) -> None:
        """As the producer does it."""
        self._producer.produce(topic, value, *more, **options)
        if value is None or not self._is_part(value):
            return
        self._left -= 1
        if not self._left:
            # Without it the record may still be on its way when the process dies.
            self._producer.flush(10)
            os.kill(os.getpid(), signal.SIGKILL)

    def _is_part(self, value: bytes) -> bool:
        try:
            movement = decode_movement(value)
        except msgspec.DecodeError:
            return False
        return movement.index == self._record and movement.of > self._record


def dying(record: int, nth: int, settings: Settings, processor: Processor) -> None:
    """Put such a producer into a processor."""
    refuse_outside_tests(settings)
    delivery = processor._delivery
    if isinstance(delivery, ExactlyOnce):
        made: Any = partial(_made, delivery._make, record, nth)
        delivery._make = made
        return
    sender: Any = delivery
    sender._sender._producer = DyingProducer(sender._sender._producer, record, nth)


def _made(make: Callable[[], Any], record: int, nth: int) -> DyingProducer:
    return DyingProducer(make(), record, nth)


def _run(prefix: str, crash: str = "") -> int:
    settings = Settings.load()
    refuse_outside_tests(settings)
    record = crash.split(":") if crash.startswith(AFTER_RECORD) else []
    failpoints = Crash.of(crash, settings) if crash and not record else Failpoints()

    def build(settings: Settings, job: ProcessorJob, failpoints: Failpoints) -> Processor:
        processor = build_processor(settings, job, failpoints)
        if record:
            dying(int(record[1]), int(record[2]), settings, processor)
        return processor

    job = stock_job(StockMovements(settings, prefix), prefix, settings.stock_slot)
    return run_until_stopped(
        prefix, lambda stopped: run_processor(settings, job, failpoints, stopped, build)
    )


if __name__ == "__main__":
    sys.exit(_run(*sys.argv[1:]))
