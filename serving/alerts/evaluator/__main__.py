"""`python -m serving.alerts.evaluator`: views, rules and ticks to alerts, exactly once."""

import sys
from collections.abc import Callable
from contextlib import closing
from threading import Event, Thread
from typing import NamedTuple

from runtime.heartbeat import Heartbeat
from runtime.job import Announced, run_until_stopped, say_ready
from runtime.processor.build import ProcessorJob, build_processor
from runtime.processor.loop import Processor
from runtime.processor.moments import Moments
from runtime.processor.rivals import fenced_or_late
from runtime.rules.topic import TOPIC as RULES
from runtime.rules.topic import RuleReader
from runtime.watchdog import Watchdog
from serving.alerts.evaluator.step import INPUTS, Evaluator
from serving.alerts.ticks.ticker import Ticker
from serving.merge.cassandra_views import CassandraViews
from serving.query import catalogue
from tally.errors import Fenced
from tally.settings import Settings

GROUP = "evaluator"


class EvaluatorParts(NamedTuple):
    """What the process is put together of."""

    step: Callable[[Settings, CassandraViews, RuleReader], Evaluator] = Evaluator
    build: Callable[[Settings, ProcessorJob, Moments], Processor] = build_processor


def main(moments: Moments = Moments(), parts: EvaluatorParts = EvaluatorParts()) -> int:
    """Exit code of the evaluator.

    0 when told to stop, 1 on an error that a new start may heal, 78 when it was refused.
    """

    def work(stopped: Event) -> None:
        settings = Settings.load()
        run(settings, moments, stopped, Announced(lambda: say_ready(settings)), parts)

    return run_until_stopped("evaluator", work)


def run(
    settings: Settings,
    moments: Moments,
    stopped: Event,
    ready: Event,
    parts: EvaluatorParts = EvaluatorParts(),
) -> None:
    """Judge, and write ticks, until stopped.

    Raises Fenced when a successor has taken over, TallyError when it cannot go on.
    """
    # Read here, once: a descriptor that is wrong ends the process, and not each judgement.
    catalogue.entries()
    views = CassandraViews(settings)
    step = parts.step(settings, views, RuleReader(settings))
    # Whatever of these topics is gone, the views and the ticks that follow say too.
    job = ProcessorJob(
        GROUP, INPUTS, step, slot=settings.evaluator_slot, anchor=RULES, hints=INPUTS
    )
    processor = parts.build(settings, job, moments)
    # A daemon: a look may wait for the brokers, and the end of the process must not.
    tick = Ticker(settings).run
    Thread(target=tick, args=(stopped,), name="ticker", daemon=True).start()
    heartbeat = Heartbeat(settings.heartbeat_file)
    Watchdog("evaluator", heartbeat).begin(stopped)
    try:
        with closing(views), closing(step), closing(processor):
            processor.run(stopped, ready, moments, heartbeat)
    # In the same words brokers end a transaction that took too long: no reason to stay away.
    except Fenced as error:
        raise fenced_or_late(settings, job, error) from error


if __name__ == "__main__":
    sys.exit(main())
