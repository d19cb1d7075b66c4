"""The evaluator as a step of the processor: hints and ticks in, alerts and its own state out."""

import asyncio
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
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
from tally.alerts.resolution import AlertResolution
from tally.alerts.tick import Tick
from tally.alerts.versions import RuleChains
from tally.errors import BadInstant, NotYet, StackError, ViewsUnreachable
from tally.instants import parse_instant
from tally.settings import Settings

UPDATES, RESTATEMENTS, TICKS, ALERTS = "view-updates", "restatements", "ticks", "alerts"
RESOLUTIONS = "alert-resolutions"
INPUTS = (UPDATES, RESTATEMENTS, TICKS, RESOLUTIONS)
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
    # So long it judges in one transaction: the group waits a minute for a member. What is left is
    # judged in the next one, by the same tick; the partitions take turns.
    most_seconds = 10.0

    def __init__(self, settings: Settings, views: ViewReader, rules: RuleSource) -> None:
        self._settings, self._views, self._source = settings, views, rules
        self._registry = StoreRegistry.load(settings)
        self._stores = ActiveStores(views, settings.partitions)
        self._usual = UsualDays(views, self._registry, settings)
        self._runner = asyncio.Runner()
        self._rules = JudgedRules({})
        self._memories: dict[int, PartitionMemory] = {}
        # Partitions with something to judge, and what is left of the pass over each that was begun.
        self._unjudged: set[int] = set()
        self._passes: dict[int, Iterator[list[Alert]]] = {}

    @property
    def held_partitions(self) -> Collection[int]:
        """Those that are not judged to the end: all stores of a pass are judged by one tick, and
        nothing counts as judged before it is."""
        return self._unjudged

    def process(self, record: Input) -> Sequence[Output]:
        """Nothing yet: what the record speaks of is looked at with the next tick()."""
        memory = self._memories.get(record.partition)
        if memory is None:
            memory = self._memories[record.partition] = PartitionMemory(record.partition)
        try:
            if record.topic == TICKS:
                memory.learn(Tick.read(record.value or b""))
            elif record.topic == RESOLUTIONS:
                memory.resolutions.append(AlertResolution.read(record.value or b""))
            else:
                memory.hints.add(_hint(record.value or b""))
        except (msgspec.MsgspecError, BadInstant) as error:
            # No record may stop a reader, and a hint that is lost costs time and nothing else.
            place = f"{record.topic} {record.partition} {record.offset}"
            log.warning("unreadable record", place=place, reason=str(error))
        return ()

    def restore(self, state: Iterable[Input]) -> None:
        """Begin anew with what the brokers keep."""
        # Ticks and hints that were not judged come again: their positions were not kept.
        self._memories = recalled(state)
        self._unjudged, self._passes = set(), {}
        self._stores = ActiveStores(self._views, self._settings.partitions)

    def tick(self) -> Sequence[Output]:
        """What is to be told of what has come, and the state as it is then.

        Raises NotYet when rules or views cannot be read: nothing is raised or cleared then.
        """
        memories = self._memories.items()
        self._unjudged |= {number for number, memory in memories if memory.has_news}
        found: list[Output] = []
        try:
            self._begin_passes()
            for number, alert in self._judged(time.monotonic() + self.most_seconds):
                found.append(Output(ALERTS, alert.store_id.encode(), message_of(alert), number))
        except (ViewsUnreachable, StackError, KafkaException) as error:
            log.warning("blind", reason=str(error.__cause__ or error))
            time.sleep(_AGAIN_SECONDS)
            if not found:
                what = "rules or views cannot be read"
                raise NotYet(f"{what}; nothing is judged meanwhile") from error
        return [*found, *(one for _, memory in memories for one in memory.drained())]

    def close(self) -> None:
        """Ends what it has begun."""
        self._runner.close()

    def _begin_passes(self) -> None:
        # One for all partitions: they are judged by the same pointers.
        moment = ViewsMoment(self._views, self._registry, self._settings, self._usual)
        for number in sorted(self._unjudged - self._passes.keys()):
            memory = self._memories[number]
            if memory.tick.rules_until != self._rules.offset:
                until = memory.tick.rules_until
                self._rules = JudgedRules(self._source.read(until).chains, until)
            reading = PassReading(moment, self._stores, self._runner.run)
            self._passes[number] = PartitionPass(self._rules, memory, reading).alerts()

    def _judged(self, until: float) -> Iterator[tuple[int, Alert]]:
        """Alerts with their partitions, as far as there is time, at least a step of each pass."""
        # One after the other: what each has read is in memory only while it is judged.
        numbers = [*self._passes]
        for place, number in enumerate(numbers):
            now = time.monotonic()
            share = (until - now) / (len(numbers) - place)
            yield from self._judged_of(number, now + share)

    def _judged_of(self, number: int, until: float) -> Iterator[tuple[int, Alert]]:
        """The same of one partition, which has an equal share of the time."""
        while True:
            # Out of the way first: one that has raised cannot go on, and begins anew.
            judging = self._passes.pop(number)
            alerts = next(judging, None)
            if alerts is None:
                if not self._memories[number].is_unfinished:
                    self._unjudged.discard(number)
                return
            self._passes[number] = judging
            yield from ((number, alert) for alert in alerts)
            if time.monotonic() > until:
                return


def _hint(value: bytes) -> Hint:
    told = _CHANGED.decode(value)
    return Hint(
        told.family, told.store_id, millis_of(parse_instant(told.window_start, "window_start"))
    )
