"""The evaluator as a step of the processor: hints and ticks in, alerts and its own state out."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec
import structlog
from confluent_kafka import KafkaException
from msgspec import Struct

from runtime.processor.record import Input, Output
from runtime.processor.step import Step
from serving.alerts.evaluator.calendar import millis_of
from serving.alerts.evaluator.judged_rules import JudgedRules
from serving.alerts.evaluator.judging import PartitionPass, PassReading
from serving.alerts.evaluator.memory import STATE_TOPIC, Hint, PartitionMemory, recalled
from serving.alerts.evaluator.moment import ViewsMoment
from serving.alerts.evaluator.stores import ActiveStores
from serving.alerts.evaluator.usual_days import UsualDays
from serving.merge.views import ViewReader
from serving.query.stores import StoreRegistry
from tally.alerts.message import Alert, message_of
from tally.alerts.tick import Tick
from tally.alerts.versions import RuleChains
from tally.errors import Aborted, BadInstant, StackError, ViewsUnreachable
from tally.instants import parse_instant
from tally.settings import Settings

UPDATES, RESTATEMENTS, TICKS, ALERTS = "view-updates", "restatements", "ticks", "alerts"
INPUTS = (UPDATES, RESTATEMENTS, TICKS)
# So long it waits after it could not read, before all comes again.
_AGAIN_SECONDS = 1.0

log = structlog.get_logger()


class RuleSource(Protocol):
    """Where the rules are read."""

    def read(self, until: int | None = None) -> RuleChains:
        """The versions below the offset. Raises KafkaException or StackError."""


class _ChangedWindow(Struct, frozen=True):
    """What a record of view-updates or restatements says that a judgement hangs on."""

    family: str
    store_id: str
    window_start: str


_CHANGED = msgspec.json.Decoder(_ChangedWindow)


class Evaluator(Step):
    """Judges what has changed once a transaction, and tells the difference to what was told."""

    state_topic = STATE_TOPIC
    # So long it judges in one transaction: the group waits a minute for a member. What is left of a
    # partition is judged in the next one, by the same tick.
    most_seconds = 10.0

    def __init__(self, settings: Settings, views: ViewReader, rules: RuleSource) -> None:
        self._settings, self._views, self._source = settings, views, rules
        self._registry = StoreRegistry.load(settings)
        self._stores = ActiveStores(views, settings.partitions)
        self._usual = UsualDays(views, self._registry, settings)
        self._runner = asyncio.Runner()
        self._rules = JudgedRules({})
        self._memories: dict[int, PartitionMemory] = {}
        # By partition what is left of a pass, and what has come since it began.
        self._passes: dict[int, Iterator[list[Alert]]] = {}
        self._waiting: dict[int, list[Input]] = defaultdict(list)

    def process(self, record: Input) -> Sequence[Output]:
        """Nothing yet: what the record speaks of is looked at with the next tick()."""
        if record.partition in self._passes:
            # All stores of a pass are judged by one tick, and no hint is counted as judged by it.
            self._waiting[record.partition].append(record)
        else:
            self._learn(record)
        return ()

    def _learn(self, record: Input) -> None:
        memory = self._memories.get(record.partition)
        if memory is None:
            memory = self._memories[record.partition] = PartitionMemory(record.partition)
        try:
            if record.topic == TICKS:
                memory.learn(Tick.read(record.value or b""))
            else:
                memory.hints.add(_hint(record.value or b""))
        except (msgspec.MsgspecError, BadInstant) as error:
            # No record may stop a reader, and a hint that is lost costs time and nothing else.
            place = f"{record.topic} {record.partition} {record.offset}"
            log.warning("unreadable record", place=place, reason=str(error))

    def restore(self, state: Iterable[Input]) -> None:
        """Begin anew with what the brokers keep."""
        # Ticks and hints that were not judged come again: their positions were not kept.
        self._memories = recalled(state)
        self._passes, self._waiting = {}, defaultdict(list)
        self._stores = ActiveStores(self._views, self._settings.partitions)

    def tick(self) -> Sequence[Output]:
        """What is to be told of what has come, and the state as it is then.

        Raises Aborted when rules or views cannot be read: nothing is raised or cleared then.
        """
        # One for all partitions: they are judged by the same pointers.
        moment = ViewsMoment(self._views, self._registry, self._settings, self._usual)
        until = time.monotonic() + self.most_seconds
        try:
            # Who has waited since the last transaction comes first.
            waiting = [self._memories[number] for number in self._passes]
            others = [one for one in self._memories.values() if one not in waiting]
            judged = [self._judged(one, moment, until) for one in (*waiting, *others)]
        except (ViewsUnreachable, StackError, KafkaException) as error:
            log.warning("blind", reason=str(error.__cause__ or error))
            time.sleep(_AGAIN_SECONDS)
            raise Aborted("rules or views cannot be read; nothing is judged meanwhile") from error
        return [one for outputs in judged for one in outputs]

    def close(self) -> None:
        """Ends what it has begun."""
        self._runner.close()

    def _judged(self, memory: PartitionMemory, moment: ViewsMoment, until: float) -> list[Output]:
        """What the partition tells of the stores that there is time for, at least of one."""
        found: list[Alert] = []
        for of_store in self._pass(memory, moment):
            found += of_store
            if time.monotonic() > until:
                break
        else:
            self._passes.pop(memory.number, None)
            for record in self._waiting.pop(memory.number, ()):
                self._learn(record)
        sent = [
            Output(ALERTS, one.store_id.encode(), message_of(one), memory.number) for one in found
        ]
        return [*sent, *memory.drained()]

    def _pass(self, memory: PartitionMemory, moment: ViewsMoment) -> Iterator[list[Alert]]:
        """The pass that was begun, or else another one where there is news."""
        begun = self._passes.get(memory.number)
        if begun is None:
            if not memory.has_news:
                return iter(())
            if memory.tick.rules_until != self._rules.offset:
                until = memory.tick.rules_until
                self._rules = JudgedRules(self._source.read(until).chains, until)
            reading = PassReading(moment, self._stores, self._runner.run)
            begun = PartitionPass(self._rules, memory, reading).alerts()
            self._passes[memory.number] = begun
        return begun


def _hint(value: bytes) -> Hint:
    told = _CHANGED.decode(value)
    return Hint(
        told.family, told.store_id, millis_of(parse_instant(told.window_start, "window_start"))
    )
