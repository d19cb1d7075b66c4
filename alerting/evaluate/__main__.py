"""The evaluator's process, which turns views, rules and ticks into alerts, exactly once.

Started by `python -m alerting.evaluate`.
"""

import sys
from collections.abc import Callable
from contextlib import closing
from threading import Event
from typing import NamedTuple

from alerting.evaluate.step import INPUTS, Evaluator
from alerting.rules.store.topic import TOPIC as RULES
from alerting.rules.store.topic import RuleReader
from alerting.watermark.ticker import Ticker
from runtime.process.job import run_until_stopped
from runtime.processor.build import BackgroundLoop, ProcessorJob, build_processor
from runtime.processor.commit.failpoints import Failpoints
from runtime.processor.loop import Processor
from runtime.processor.service import run_processor
from serving.metrics import catalogue
from serving.storage.views import ViewReader
from tally.config.settings import Settings

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
        run(Settings.load(), failpoints, stopped, parts)

    return run_until_stopped(GROUP, work)


def run(
    settings: Settings,
    failpoints: Failpoints,
    stopped: Event,
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
        GROUP,
        INPUTS,
        step,
        slot=settings.evaluator_slot,
        anchor=RULES,
        hint_topics=INPUTS,
        background=(BackgroundLoop("ticker", Ticker(settings).run),),
    )
    with closing(views), closing(step):
        run_processor(settings, job, failpoints, stopped, parts.build)


if __name__ == "__main__":
    sys.exit(main())
