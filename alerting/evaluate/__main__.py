"""The evaluator's process, which turns views, rules and ticks into alerts, exactly once.

Started by `python -m alerting.evaluate`.
"""

import sys
from collections.abc import Callable
from contextlib import closing
from threading import Event, Thread
from typing import NamedTuple

from alerting.evaluate.step import INPUTS, Evaluator
from alerting.rules.store.topic import TOPIC as RULES
from alerting.rules.store.topic import RuleReader
from alerting.watermark.ticker import Ticker
from runtime.process.heartbeat import Heartbeat
from runtime.process.job import NotifyingEvent, run_until_stopped, signal_ready
from runtime.process.watchdog import Watchdog
from runtime.processor.build import ProcessorJob, build_processor
from runtime.processor.commit.failpoints import Failpoints
from runtime.processor.loop import Processor
from runtime.processor.rivals import classify_fencing
from serving.metrics import catalogue
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tally.errors import ProducerFenced

GROUP = "evaluator"


class EvaluatorParts(NamedTuple):
    """Factories for the parts of the process; tests replace them."""

    step: Callable[[Settings, ViewReader, RuleReader], Evaluator] = Evaluator
    build: Callable[[Settings, ProcessorJob, Failpoints], Processor] = build_processor


def main(failpoints: Failpoints = Failpoints(), parts: EvaluatorParts = EvaluatorParts()) -> int:
    """Run the evaluator and return its exit code.

    The code is 0 after a stop request, 1 on an error that a restart may fix, and 78 when the
    process was refused.
    """

    def work(stopped: Event) -> None:
        settings = Settings.load()
        run(settings, failpoints, stopped, NotifyingEvent(lambda: signal_ready(settings)), parts)

    return run_until_stopped("evaluator", work)


def run(
    settings: Settings,
    failpoints: Failpoints,
    stopped: Event,
    ready: Event,
    parts: EvaluatorParts = EvaluatorParts(),
) -> None:
    """Evaluate the views and write ticks until stopped.

    Raises ProducerFenced when a successor has taken over, TallyError when the process cannot
    continue.
    """
    # Read once at the start: a wrong descriptor ends the process instead of every evaluation.
    catalogue.entries()
    views = ViewReader(settings)
    step = parts.step(settings, views, RuleReader(settings))
    # Records that these topics have lost do no harm: the views and later ticks say the same.
    job = ProcessorJob(
        GROUP, INPUTS, step, slot=settings.evaluator_slot, anchor=RULES, hint_topics=INPUTS
    )
    processor = parts.build(settings, job, failpoints)
    # A daemon thread: the ticker may wait for the brokers, and the process must not wait for it.
    tick = Ticker(settings).run
    Thread(target=tick, args=(stopped,), name="ticker", daemon=True).start()
    heartbeat = Heartbeat(settings.heartbeat_file)
    Watchdog("evaluator", heartbeat).start(stopped)
    try:
        with closing(views), closing(step), closing(processor):
            processor.run(stopped, ready, failpoints, heartbeat)
    # Brokers end a transaction that took too long with the same error. That alone is no reason
    # to stay down.
    except ProducerFenced as error:
        raise classify_fencing(settings, job, error) from error


if __name__ == "__main__":
    sys.exit(main())
