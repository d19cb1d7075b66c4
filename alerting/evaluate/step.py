"""The evaluator as a processor step, which turns hints and ticks into alerts and its own state."""

import asyncio
import time
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec
import structlog
from confluent_kafka import KafkaException
from msgspec import Struct

from alerting.alert.resolution import AlertResolution
from alerting.evaluate.scope.rule_set import RuleSet
from alerting.evaluate.snapshot.baseline_days import BaselineCache
from alerting.evaluate.snapshot.snapshot_reader import SnapshotReader
from alerting.evaluate.state.memory import STATE_TOPIC, Hint, PartitionMemory, restore_memories
from alerting.evaluate.verdicts.evaluation_pass import EvaluationPass
from alerting.rules.versions import RuleSource
from runtime.processor.step import Input, Output, Step, log_unreadable
from serving.questions.known_stores import ActiveStores
from serving.questions.stores import StoreRegistry
from serving.storage.views import ViewReader
from tally.alerts.message import Alert, encode_alert
from tally.alerts.tick import Tick
from tally.config.settings import Settings
from tally.errors import BadInstant, RetryLater, StackError, ViewsUnreachable
from tally.time.instants import parse_instant, to_millis

UPDATES, RESTATEMENTS, TICKS, ALERTS = "view-updates", "restatements", "ticks", "alerts"
RESOLUTIONS = "alert-resolutions"
INPUTS = (UPDATES, RESTATEMENTS, TICKS, RESOLUTIONS)
# The wait after a failed read, before the records are delivered again.
_RETRY_SECONDS = 1.0

log = structlog.get_logger()


class _ChangedWindow(Struct, frozen=True):
    """The fields of a record of view-updates or restatements that an evaluation depends on."""

    family: str
    store_id: str
    window_start: str


_CHANGED = msgspec.json.Decoder(_ChangedWindow)


class Evaluator(Step):
    """Evaluates once a transaction what has changed, and publishes only the changed alerts."""

    state_topic = STATE_TOPIC
    # The time for evaluation in one transaction: the consumer group waits a minute for a member.
    # The rest is evaluated in the next transaction by the same tick; the partitions take turns.
    most_seconds = 10.0

    def __init__(self, settings: Settings, views: ViewReader, rules: RuleSource) -> None:
        self._settings, self._views, self._source = settings, views, rules
        self._registry = StoreRegistry.load(settings)
        self._stores = ActiveStores(views, settings.partitions)
        self._baselines = BaselineCache(views, self._registry, settings)
        self._runner = asyncio.Runner()
        self._rules = RuleSet({})
        self._memories: dict[int, PartitionMemory] = {}
        # Partitions with something to evaluate, and the remaining pass of each that was begun.
        self._pending_partitions: set[int] = set()
        self._passes: dict[int, Iterator[list[Alert]]] = {}

    @property
    def busy_partitions(self) -> Collection[int]:
        """The partitions whose pass has not ended."""
        # One tick evaluates all stores of a pass; before it ends, nothing counts as evaluated.
        return self._pending_partitions

    def process(self, record: Input) -> Sequence[Output]:
        """Note what the record says, and return no output; before_commit() evaluates it."""
        memory = self._memories.get(record.partition)
        if memory is None:
            memory = self._memories[record.partition] = PartitionMemory(record.partition)
        try:
            if record.topic == TICKS:
                memory.merge_tick(Tick.decode(record.value or b""))
            elif record.topic == RESOLUTIONS:
                memory.resolutions.append(AlertResolution.decode(record.value or b""))
            else:
                memory.hints.add(_decode_hint(record.value or b""))
        except (msgspec.MsgspecError, BadInstant) as error:
            # A lost hint only delays an alert.
            log_unreadable(record, error)
        return ()

    def restore(self, state: Iterable[Input]) -> None:
        """Restart from the state that the brokers keep."""
        # Ticks and hints that were not evaluated are delivered again: their offsets were not
        # committed.
        self._memories = restore_memories(state)
        self._pending_partitions, self._passes = set(), {}
        self._stores = ActiveStores(self._views, self._settings.partitions)

    def before_commit(self) -> Sequence[Output]:
        """Evaluate the news; the alerts to publish and the changed records of the state.

        Raises RetryLater when rules or views cannot be read; no alert is raised or cleared then.
        """
        memories = self._memories.items()
        self._pending_partitions |= {number for number, memory in memories if memory.has_news}
        found: list[Output] = []
        try:
            self._begin_passes()
            for number, alert in self._evaluate_partitions(time.monotonic() + self.most_seconds):
                found.append(Output(ALERTS, alert.store_id.encode(), encode_alert(alert), number))
        except (ViewsUnreachable, StackError, KafkaException) as error:
            log.warning("blind", reason=str(error.__cause__ or error))
            time.sleep(_RETRY_SECONDS)
            if not found:
                what = "rules or views cannot be read"
                raise RetryLater(f"{what}; nothing is judged meanwhile") from error
        return [*found, *(output for _, memory in memories for output in memory.drain())]

    def close(self) -> None:
        """Close the event loop."""
        self._runner.close()

    def _begin_passes(self) -> None:
        # One snapshot for all partitions, so that they are evaluated by the same pointers.
        snapshot = SnapshotReader(self._views, self._registry, self._settings, self._baselines.read)
        for number in sorted(self._pending_partitions - self._passes.keys()):
            memory = self._memories[number]
            if memory.tick.rules_until != self._rules.offset:
                until = memory.tick.rules_until
                self._rules = RuleSet(self._source.read(until).versions, until)
            reading = snapshot, self._stores, self._runner.run
            self._passes[number] = EvaluationPass(self._rules, memory, *reading).alerts()

    def _evaluate_partitions(self, until: float) -> Iterator[tuple[int, Alert]]:
        """Alerts with their partitions, until the time is up; at least one step of each pass."""
        # One partition after the other, so that only one partition's rows are in memory.
        numbers = [*self._passes]
        for place, number in enumerate(numbers):
            now = time.monotonic()
            share = (until - now) / (len(numbers) - place)
            yield from self._evaluate_partition(number, now + share)

    def _evaluate_partition(self, number: int, until: float) -> Iterator[tuple[int, Alert]]:
        """Alerts of one partition, until its share of the time is up; at least one step."""
        while True:
            # Removed before the step: a pass that has raised cannot continue and is begun again.
            evaluation = self._passes.pop(number)
            alerts = next(evaluation, None)
            if alerts is None:
                if not self._memories[number].is_unfinished:
                    self._pending_partitions.discard(number)
                return
            self._passes[number] = evaluation
            yield from ((number, alert) for alert in alerts)
            if time.monotonic() > until:
                return


def _decode_hint(value: bytes) -> Hint:
    changed = _CHANGED.decode(value)
    window = to_millis(parse_instant(changed.window_start, "window_start"))
    return Hint(changed.family, changed.store_id, window)
