"""`python -m alerting.deliver`: sends alerts to webhooks by channels and silences."""

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from itertools import chain
from threading import Event
from typing import NamedTuple

from alerting.deliver.engine.engine import DeliveryEngine
from alerting.deliver.facts import CachedRules, RegisteredStores
from alerting.deliver.state.memory import DeliveryMemory
from alerting.deliver.state.routing import DeliveryRules
from alerting.deliver.step import CONTROLS, TICKS, Dispatcher, webhook_calls
from alerting.rules.store.topic import TOPIC as RULES
from alerting.rules.store.topic import RuleReader
from runtime.kafka.reader import read_newest, read_to_end
from runtime.outbound.caller import OutboundCaller, build_caller
from runtime.process.job import run_until_stopped
from runtime.processor.build import ProcessorJob
from runtime.processor.commit.failpoints import Failpoints
from runtime.processor.commit.record import Input
from runtime.processor.intake import to_input
from runtime.processor.service import run_processor
from runtime.registry.stores import load_stores
from tally.config.settings import Settings

GROUP = "dispatcher"
# The newest tick of a partition is among its last records of this number, transaction markers
# included.
_NEWEST_TICKS = 20


class DispatcherParts(NamedTuple):
    """The parts of a dispatcher; a test replaces one of them to inject a fault."""

    step: Callable[..., Dispatcher] = Dispatcher
    caller: Callable[..., OutboundCaller] = OutboundCaller
    engine: Callable[..., DeliveryEngine] = DeliveryEngine
    rules: DeliveryRules = DeliveryRules()


def main(failpoints: Failpoints = Failpoints()) -> int:
    """Run the dispatcher and return its exit code.

    0 after a stop signal, 1 on an error that a restart may cure, 78 when the start was refused.
    """

    def work(stopped: Event) -> None:
        settings = Settings.load()
        with closing(build_dispatcher(settings)) as step:
            run_processor(
                settings, dispatch_job(step, slot=settings.dispatcher_slot), failpoints, stopped
            )

    return run_until_stopped(GROUP, work)


def build_dispatcher(
    settings: Settings,
    prefix: str = "",
    rules: str = RULES,
    parts: DispatcherParts = DispatcherParts(),
) -> Dispatcher:
    """Build the step from the settings; `prefix` and `rules` name separate topics for tests.

    Raises BadSettings for invalid networks or an invalid stores file.
    """
    caller = build_caller(settings, parts.caller)
    known = CachedRules(RuleReader(settings, rules))
    stores = RegisteredStores(load_stores(settings.stores_file), settings.default_timezone, known)

    def build_engine(
        partition: int, memories: Callable[[], Collection[DeliveryMemory]]
    ) -> DeliveryEngine:
        return parts.engine(parts.rules, stores, partition, memories)

    def read_early_records() -> Iterator[Input]:
        ticks = read_newest(settings, prefix + TICKS, _NEWEST_TICKS)
        return map(to_input, chain(ticks, read_to_end(settings, [prefix + CONTROLS])))

    return parts.step(
        webhook_calls(caller), build_engine, prefix, read_early_records, known.require_until
    )


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
