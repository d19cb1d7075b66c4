"""`python -m alerting.evaluate` turns views, rules and ticks into alerts, exactly once."""

import sys
from collections.abc import Callable
from contextlib import closing
from threading import Event
from typing import NamedTuple

from alerting.evaluate.step import INPUTS, Evaluator
from alerting.rules.topic import TOPIC as RULES
from alerting.rules.topic import RuleReader
from alerting.watermark.ticker import Ticker
from runtime.process.job import run_until_stopped
from runtime.processor.delivery import Failpoints
from runtime.processor.loop import Processor
from runtime.processor.service import BackgroundLoop, ProcessorJob, build_processor, run_processor
from serving.questions import catalogue
from serving.storage.views import ViewReader
from tally.config.settings import Settings

GROUP = "evaluator"


class EvaluatorParts(NamedTuple):
    """Factories for the parts of the process; tests replace them."""

    step: Callable[[Settings, ViewReader, RuleReader], Evaluator] = Evaluator
    build: Callable[[Settings, ProcessorJob, Failpoints], Processor] = build_processor


def main(failpoints: Failpoints = Failpoints(), parts: EvaluatorParts = EvaluatorParts()) -> int:
    """Evaluate the views and write ticks until stopped; returns the exit code.

    The code is 0 after a stop request, 1 on an error that a restart may fix, and 78 when the
    process was refused.
    """

    def run(stopped: Event) -> None:
        settings = Settings.load()
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

    return run_until_stopped(GROUP, run)


if __name__ == "__main__":
    sys.exit(main())
