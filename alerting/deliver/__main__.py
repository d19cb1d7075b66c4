"""`python -m alerting.deliver`: sends alerts to webhooks by channels and silences."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain
from threading import Event
from typing import NamedTuple

from alerting.deliver.engine import DeliveryEngine
from alerting.deliver.facts import CachedRules, RegisteredStores
from alerting.deliver.state.routing import DeliveryRules
from alerting.deliver.step import CONTROLS, TICKS, Dispatcher, webhook_calls
from alerting.rules.topic import TOPIC as RULES
from alerting.rules.topic import RuleReader
from runtime.kafka.reader import read_newest, read_to_end
from runtime.outbound.caller import OutboundCaller, build_caller
from runtime.process.job import run_until_stopped
from runtime.processor.delivery import Failpoints
from runtime.processor.intake import to_input
from runtime.processor.service import ProcessorJob, run_processor
from runtime.processor.step import Input
from runtime.registry.stores import load_stores
from tally.config.settings import Settings

GROUP = "dispatcher"
# The newest tick of a partition is among so many of its last records, markers included.
_NEWEST_TICKS = 20


class DispatcherParts(NamedTuple):
    """The parts of a dispatcher; a test replaces one of them to inject a fault."""

    step: Callable[..., Dispatcher] = Dispatcher
    caller: Callable[..., OutboundCaller] = OutboundCaller
    engine: Callable[..., DeliveryEngine] = DeliveryEngine
    rules: DeliveryRules = DeliveryRules()


def main(failpoints: Failpoints = Failpoints()) -> int:
    """Exit code: 0 after a stop signal, 1 on an error that a restart may cure, 78 if refused."""

    def work(stopped: Event) -> None:
        settings = Settings.load()
        with closing(build_dispatcher(settings)) as step:
            job = dispatch_job(step, slot=settings.dispatcher_slot)
            run_processor(settings, job, failpoints, stopped)

    return run_until_stopped(GROUP, work)


def build_dispatcher(
    settings: Settings,
    prefix: str = "",
    rules: str = RULES,
    parts: DispatcherParts = DispatcherParts(),
) -> Dispatcher:
    """The step; `prefix` and `rules` name topics for tests. Raises BadSettings."""
    caller = build_caller(settings, parts.caller)
    known = CachedRules(RuleReader(settings, rules))
    stores = RegisteredStores(load_stores(settings.stores_file), settings.default_timezone, known)

    def read_early_records() -> Iterator[Input]:
        ticks = read_newest(settings, prefix + TICKS, _NEWEST_TICKS)
        return map(to_input, chain(ticks, read_to_end(settings, [prefix + CONTROLS])))

    build_engine = partial(parts.engine, parts.rules, stores)
    calls = webhook_calls(caller)
    return parts.step(calls, build_engine, prefix, read_early_records, known.require_until)


def dispatch_job(step: Dispatcher, group: str = GROUP, slot: int = 0) -> ProcessorJob:
    """The processor job that runs the step; tests use a `group` of their own."""
    controls, ticks, alerts = step.topics
    # Kafka compacts controls and ticks to the last record of a key, and may remove the very record
    # that was read last. An alert that arrives again was decided already; the loss of a topic is no
    # reason to stop sending alerts.
    hints, again = (controls, ticks), (alerts,)
    return ProcessorJob(
        group, step.topics, step, slot, anchor=RULES, hint_topics=hints, reread_topics=again
    )


if __name__ == "__main__":
    sys.exit(main())
