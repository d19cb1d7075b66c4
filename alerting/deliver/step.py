"""The dispatcher's step: alerts, controls and ticks to decisions, messages and their outcomes."""

from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from alerting.deliver.engine import DeliveryEngine
from alerting.deliver.state.attempts import CallCapacity, CircuitBreakers
from alerting.deliver.state.controls import Redelivery, decode_control
from alerting.deliver.state.memory import DeliveryMemory, is_over
from alerting.deliver.state.records import CODEC, CONTROL_PREFIX, DeliveryChange, WebhookMessage
from runtime.outbound.caller import OutboundAnswer, OutboundCaller, OutboundRequest
from runtime.outbound.engine import DroppedRecord, TickTime
from runtime.outbound.step import OutboundStep, PendingCalls, PlacedCall
from runtime.processor.step import Input, Output, newest_values
from tally.alerts.message import decode_alert
from tally.alerts.tick import NO_TICK, Tick, merge_ticks

ALERTS, CONTROLS, TICKS, DELIVERIES = "alerts", "alert-controls", "ticks", "alert-deliveries"
# Makes the engine of a partition; the callable returns the memories of all assigned partitions.
EngineFactory = Callable[[int, Callable[[], Collection[DeliveryMemory]]], DeliveryEngine]


def webhook_calls(caller: OutboundCaller) -> PendingCalls[WebhookMessage, OutboundAnswer]:
    """Calls to webhooks, made on a thread of their own."""

    async def call(placed: PlacedCall[WebhookMessage]) -> OutboundAnswer:
        message = placed.call
        if not placed.secrets:
            cause = f"no channel {message.channel!a} is set; `tally channels` lists those that are"
            return OutboundAnswer(error=cause, is_refused=True)
        request = OutboundRequest("POST", message.url, body=message.body.encode())
        return await caller.call_signed(request, message.message_id, placed.secrets)

    return PendingCalls(call, OutboundAnswer)


class Dispatcher(OutboundStep[DeliveryEngine, WebhookMessage, OutboundAnswer]):
    """The deliveries of the assigned partitions; `make_engine` makes the engine of a partition.

    `learn` receives the end offset of the rules. `foreseen`: the controls and the newest ticks that
    exist by now. Records of two topics have no common order: without the foreseen ones, alerts that
    arrived while no dispatcher ran would be decided by an old clock and old silences.
    """

    state_topic = DELIVERIES

    def __init__(
        self,
        calls: PendingCalls[WebhookMessage, OutboundAnswer],
        make_engine: EngineFactory,
        prefix: str = "",
        foreseen: Callable[[], Iterable[Input]] = tuple,
        learn: Callable[[int], None] = lambda _until: None,
    ) -> None:
        super().__init__(calls, CODEC)
        # Tests use a set of topics of their own, named by the prefix.
        self.state_topic = prefix + DELIVERIES
        # Within one poll, controls are processed first, and alerts only after the ticks that give
        # the current time.
        self.topics = tuple(prefix + name for name in (CONTROLS, TICKS, ALERTS))
        self._read_early_records, self._learn = foreseen, learn
        self._build_engine = make_engine
        self._breakers = CircuitBreakers()
        # By partition what was foreseen and not processed yet: the newest tick and ended controls.
        self._early_ticks: dict[int, Tick] = {}
        self._ended_controls: dict[int, list[bytes]] = {}

    def process(self, record: Input) -> Sequence[Output]:
        """The outputs of an alert, a control or a tick: decisions, messages and tombstones."""
        partition = record.partition
        outputs = [
            self._tombstone(partition, key) for key in self._ended_controls.pop(partition, ())
        ]
        # The foreseen tick comes before all other records of the partition.
        if tick := self._early_ticks.pop(partition, None):
            outputs += self._advance_time(partition, tick)
        return [*outputs, *super().process(record)]

    def _process_value(self, record: Input, value: bytes) -> list[Output]:
        engine, number = self._engine(record.partition), record.partition
        controls, ticks, _alerts = self.topics
        if record.topic == ticks:
            return self._advance_time(number, Tick.decode(value))
        if record.topic != controls:
            return self._outputs(number, engine.process_alert(decode_alert(value)))
        control = decode_control(value)
        outputs = self._outputs(number, engine.apply_control(control))
        # An order to redeliver is complete with this transaction, so its record is deleted.
        if isinstance(control, Redelivery):
            outputs.append(self._tombstone(number, record.key))
        return outputs

    def _advance_time(self, partition: int, tick: Tick) -> list[Output]:
        self._learn(tick.rules_until)
        time = TickTime(n=tick.n, at=tick.at)
        return self._outputs(partition, self._engine(partition).advance_time(time))

    def _tombstone(self, partition: int, key: bytes | None) -> Output:
        return Output(self.topics[0], key, None, partition)

    def restore(self, state: Iterable[Input]) -> None:
        """Rebuild the engines, and apply early what exists by now. Raises UnrecoverableError."""
        super().restore(state)
        self._early_ticks, self._ended_controls = {}, {}
        controls, ticks, _alerts = self.topics
        early = [*self._read_early_records()]
        # Ticks come first, because they decide which controls are over.
        for topic in (ticks, controls):
            # Only the last record of a key: earlier ones were processed long ago and are over.
            of_topic = (record for record in early if record.topic == topic)
            for records in newest_values(of_topic, lambda record: record).values():
                for record in records.values():
                    self._apply_early(record)

    def _apply_early(self, record: Input) -> None:
        """Apply a tick or a control ahead of its turn; the state gets it when its turn comes.

        A control that is over is not remembered, and its record is deleted.
        """
        number, value = record.partition, record.value or b""
        try:
            if record.topic == self.topics[1]:
                known = self._early_ticks.get(number, NO_TICK)
                self._early_ticks[number] = merge_ticks(known, Tick.decode(value))
                return
            control = decode_control(value)
        # The record is logged when its turn comes.
        except msgspec.DecodeError:
            return
        engine = self._engine(number)
        now = max(engine.memory.time.at, self._early_ticks.get(number, NO_TICK).at)
        if is_over(control, now):
            self._ended_controls.setdefault(number, []).append(record.key or b"")
        else:
            engine.apply_control_early(control)

    def _make_engine(self, partition: int) -> DeliveryEngine:
        return self._build_engine(partition, self._memories)

    def _memories(self) -> Collection[DeliveryMemory]:
        return [engine.memory for engine in self._engines.values()]

    def _outputs(self, partition: int, changes: Sequence[DeliveryChange]) -> list[Output]:
        outputs = super()._outputs(partition, changes)
        prefix = CONTROL_PREFIX.encode()
        for change in changes:
            # A control that is over is also deleted from the topic of controls.
            if isinstance(change, DroppedRecord) and change.topic_key.startswith(prefix):
                key = change.topic_key.removeprefix(prefix)
                outputs.append(self._tombstone(partition, key))
        return outputs

    def _place(self, partition: int, call: WebhookMessage) -> PlacedCall[WebhookMessage]:
        # From the channel and not from the message, because others may write its record. An unknown
        # channel has no secrets, and the call is refused without them.
        channel = self._engine(partition).memory.channels.get(call.channel)
        return PlacedCall(partition, call, channel.secrets if channel else ())

    def _room(
        self, pending: Sequence[PlacedCall[WebhookMessage]]
    ) -> Callable[[WebhookMessage], bool]:
        return CallCapacity((placed.call.url for placed in pending), self._breakers).reserve

    def _note_answer(self, placed: PlacedCall[WebhookMessage], answer: OutboundAnswer) -> None:
        self._breakers.record_answer(placed.call.url, answer)
