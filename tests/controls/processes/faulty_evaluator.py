"""Wrong on purpose: the shipped evaluator as a process that something happens to, or with one
mistake that somebody could make.

`python -m tests.controls.processes.faulty_evaluator [--crash MOMENT:NTH[:SIGSTOP]] [--abort]
[--fault NAME]`

--crash  it kills or freezes itself when it comes to that moment for the nth time with an alert to
         tell. Beside the processor's moments there are `after_read` (the views are read and
         evaluated, no transaction has begun) and `in_restore` (at the nth record of its state).
--abort  its first transaction with an alert in it is aborted, as by a group that has changed.
--fault  what is wrong with it: FAULTS.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from msgspec import structs
from typing_extensions import override

from alerting.evaluate.__main__ import EvaluatorParts, main
from alerting.evaluate.step import ALERTS, TICKS, Evaluator
from runtime.processor.delivery import (
    AFTER_POLL,
    FAILPOINTS,
    CheckMetadata,
    Delivery,
    Failpoints,
    Positions,
)
from runtime.processor.loop import Processor
from runtime.processor.service import ProcessorJob, build_processor
from runtime.processor.step import Input, Output
from tally.alerts.tick import Tick
from tally.config.settings import Settings
from tally.errors import TransactionAborted
from tests.controls.guard import refuse_outside_tests
from tests.controls.processes.crashing import Crash
from tests.controls.processes.faulty_loops import (
    going_on_although_fenced,
    keeping_memory,
    restoring_too_little,
    sending_by_itself,
)

AFTER_READ, IN_RESTORE = "after_read", "in_restore"
# Of these nobody knows yet whether there is an alert to tell.
_BEFORE_EVALUATION = (AFTER_POLL, IN_RESTORE)
_NEVER = f"{AFTER_READ}:{10**9}"


@dataclass
class TellingCrash(Crash):
    """One that counts the deliveries that tell an alert, and not those that only keep positions."""

    names: ClassVar[Sequence[str]] = (*FAILPOINTS, AFTER_READ, IN_RESTORE)
    is_telling: bool = field(default=False, init=False)

    @override
    def hit(self, name: str) -> None:
        if self.is_telling or name in _BEFORE_EVALUATION:
            super().hit(name)


class _CrashingEvaluator(Evaluator):
    """Comes to two moments more than the product has."""

    def __init__(self, crash: TellingCrash, *parts: Any) -> None:
        super().__init__(*parts)
        self._crash = crash

    @override
    def restore(self, state: Iterable[Input]) -> None:
        super().restore(self._each(state))

    @override
    def before_commit(self) -> Sequence[Output]:
        found = super().before_commit()
        self._crash.is_telling = any(one.topic == ALERTS for one in found)
        self._crash.hit(AFTER_READ)
        return found

    def _each(self, state: Iterable[Input]) -> Iterable[Input]:
        for record in state:
            self._crash.hit(IN_RESTORE)
            yield record


class _ClosesWithTheTick(_CrashingEvaluator):
    """A window closes when its time is over, however far the pipeline has come by then."""

    @override
    def process(self, record: Input) -> Sequence[Output]:
        if record.topic != TICKS:
            return super().process(record)
        tick = Tick.decode(record.value or b"")
        closed = structs.replace(tick, through=dict.fromkeys(tick.through, tick.at))
        return super().process(structs.replace(record, value=closed.value))


class _AbortedOnce:
    """A delivery whose first transaction with an alert in it is aborted by the brokers' word."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery, self._is_over = delivery, False

    def renew(self) -> None:
        """As the delivery does it."""
        self._delivery.renew()

    def deliver(
        self, outputs: Sequence[Output], positions: Positions, metadata_now: CheckMetadata
    ) -> None:
        """As the delivery does it, but once."""
        is_telling = any(one.topic == ALERTS for one in outputs)
        if self._is_over or not is_telling:
            self._delivery.deliver(outputs, positions, metadata_now)
            return
        self._is_over = True
        # Asked before the transaction and in it: only then its records are on their way.
        answers = iter([metadata_now])
        self._delivery.deliver(outputs, positions, lambda: next(answers, _changed)())


def _changed() -> Any:
    raise TransactionAborted("on purpose: the group has changed since the records were polled")


Change = Callable[[Settings, ProcessorJob, Processor], None]
FAULTS: dict[str, Change | type[_CrashingEvaluator]] = {
    "restores to the stable offset": restoring_too_little,
    "keeps what was aborted": keeping_memory,
    "sends without positions": sending_by_itself,
    "closes with the tick": _ClosesWithTheTick,
    "goes on although fenced": going_on_although_fenced,
}


def _parts_of(crash: TellingCrash, fault: str | None, *, is_aborted: bool) -> EvaluatorParts:
    """What such an evaluator is put together of."""
    found = FAULTS.get(fault or "")
    step = found if isinstance(found, type) else _CrashingEvaluator
    change = None if isinstance(found, type) else found

    def build(settings: Settings, job: ProcessorJob, failpoints: Failpoints) -> Processor:
        processor = build_processor(settings, job, failpoints)
        if change is not None:
            change(settings, job, processor)
        if is_aborted:
            processor._delivery = _AbortedOnce(processor._delivery)
        return processor

    return EvaluatorParts(partial(step, crash), build)


def _run(argv: Sequence[str]) -> int:
    """Exit code of the evaluator, as the shipped one has it."""
    settings = Settings.load()
    refuse_outside_tests(settings)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--crash", default=_NEVER)
    parser.add_argument("--abort", action="store_true")
    parser.add_argument("--fault", choices=FAULTS)
    given = parser.parse_args(argv)
    crash = TellingCrash.of(given.crash, settings)
    return main(crash, _parts_of(crash, given.fault, is_aborted=given.abort))


if __name__ == "__main__":
    sys.exit(_run(sys.argv[1:]))
