"""`python -m serving.alerts.dispatch`: alerts to webhooks, as channels and silences have it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from threading import Event
from typing import NamedTuple

from runtime.job import run_until_stopped
from runtime.outbound.addresses import allowed_networks
from runtime.outbound.secrets import FILE, SigningKeys
from runtime.processor.build import ProcessorJob
from runtime.processor.intake import input_of
from runtime.processor.moments import Moments
from runtime.processor.record import Input
from runtime.processor.service import serve
from runtime.reading import read_newest, read_to_end
from runtime.rules.topic import TOPIC as RULES
from runtime.rules.topic import RuleReader
from runtime.stores import store_entries
from serving.alerts.dispatch.calls import WebhookCalls
from serving.alerts.dispatch.digest_files import DigestFiles
from serving.alerts.dispatch.judged import JudgedTicks
from serving.alerts.dispatch.peers import StoresOfFamilies
from serving.alerts.dispatch.rule_facts import LearnedRules
from serving.alerts.dispatch.sender import WebhookSender
from serving.alerts.dispatch.step import CONTROLS, TICKS, Dispatcher
from serving.alerts.dispatch.surroundings import (
    JudgedLookup,
    RegisteredStores,
    StoreLookup,
    never_judged,
)
from serving.merge.cassandra_views import CassandraViews
from tally.alerts.delivery.deciding import DeliveryRules
from tally.alerts.delivery.desk import Desk
from tally.alerts.delivery.groups import DeskMemories
from tally.settings import Settings

GROUP = "dispatcher"
# Behind so many records of a partition lies its newest tick, markers of transactions among them.
_NEWEST_TICKS = 20


class DispatcherParts(NamedTuple):
    """What a dispatcher is made of; what is wrong on purpose takes the place of one of them."""

    step: Callable[..., Dispatcher] = Dispatcher
    sender: Callable[..., WebhookSender] = WebhookSender
    desk: Callable[..., Desk] = Desk
    rules: DeliveryRules = DeliveryRules()
    judged: JudgedLookup = never_judged


def main(moments: Moments = Moments()) -> int:
    """Exit code of the dispatcher.

    0 when told to stop, 1 on an error that a new start may heal, 78 when it was refused.
    """

    def work(stopped: Event) -> None:
        settings = Settings.load()
        views = CassandraViews(settings)
        stores = StoresOfFamilies(views, settings.partitions)
        judged = JudgedTicks(settings, TICKS)
        step = dispatcher(settings, stores.of, parts=DispatcherParts(judged=judged))
        with closing(views), closing(stores), closing(judged), closing(step):
            serve(settings, dispatch_job(step, slot=settings.dispatcher_slot), moments, stopped)

    return run_until_stopped(GROUP, work)


def dispatcher(
    settings: Settings,
    stores: StoreLookup,
    prefix: str = "",
    rules: str = RULES,
    parts: DispatcherParts = DispatcherParts(),
) -> Dispatcher:
    """The step by the settings; `prefix` and `rules` name topics of their own (tests).

    Raises BadSettings for networks or a stores file that do not fit.
    """
    sender = parts.sender(allowed_networks(settings.webhook_networks))
    keys = SigningKeys(settings.webhook_secrets or settings.home / FILE)
    files = DigestFiles(settings.digests or settings.home / "digests")
    known = LearnedRules(RuleReader(settings, rules))
    entries = store_entries(settings.stores_file)
    around = RegisteredStores(entries, settings.default_timezone, known, stores)
    around.judged = parts.judged

    def desk(partition: int, desks: Callable[[], DeskMemories]) -> Desk:
        return parts.desk(parts.rules, around, partition, desks)

    def foreseen() -> Iterator[Input]:
        ticks = read_newest(settings, prefix + TICKS, _NEWEST_TICKS)
        return map(input_of, chain(ticks, read_to_end(settings, [prefix + CONTROLS])))

    return parts.step(WebhookCalls(sender, keys, files), desk, prefix, foreseen, known.learn)


def dispatch_job(step: Dispatcher, group: str = GROUP, slot: int = 0) -> ProcessorJob:
    """The job of the step; `group` is its own in tests."""
    controls, ticks, alerts = step.topics
    # Of controls and ticks Kafka keeps the last of a key, and takes the very record that was read
    # last. An alert that comes again was decided about; no topic's loss is a reason to tell nobody.
    hints, again = (controls, ticks), (alerts,)
    return ProcessorJob(group, step.topics, step, slot, anchor=RULES, hints=hints, again=again)


if __name__ == "__main__":
    sys.exit(main())
