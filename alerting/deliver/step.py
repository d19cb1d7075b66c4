"""The dispatcher's step: alerts, controls and ticks to decisions, messages and their outcomes.

    process(alert)     decisions and messages, into the state
    tick()             outcomes of calls, and the attempts that are due, into the state
    stored()           now that they are stored: the calls

A call is never made before its attempt is stored, and never within a transaction. A process that
restores the state finds each attempt, with or without its outcome; an attempt without one is
treated as unanswered.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec
import structlog

from alerting.deliver.calls import OutboundMessage, WebhookCalls
from alerting.deliver.engine import retention
from alerting.deliver.engine.engine import DeliveryEngine
from alerting.deliver.state.call_limits import CallCapacity, CircuitBreakers
from alerting.deliver.state.controls import AlertChannel, AlertControl, Redelivery, decode_control
from alerting.deliver.state.memory import DeliveryMemory
from alerting.deliver.state.records import (
    CONTROL_PREFIX,
    DeliveryChange,
    StoredDelivery,
    WebhookMessage,
    decode_record,
    encode_record,
    record_key,
)
from runtime.outbound.records import DroppedRecord, TickTime
from runtime.processor.commit.record import Input, Output, parse_state
from runtime.processor.step import Step
from tally.alerts.message import decode_alert
from tally.errors import BadInstant

ALERTS, CONTROLS, TICKS, DELIVERIES = "alerts", "alert-controls", "ticks", "alert-deliveries"
# Makes the desk of a partition; the callable returns the memories of all assigned partitions.
EngineFactory = Callable[[int, Callable[[], Collection[DeliveryMemory]]], DeliveryEngine]

log = structlog.get_logger()


class TickFields(msgspec.Struct, frozen=True):
    """The read fields of a tick: its number, its instant (ms since 1970, UTC), the rules' end."""

    n: int
    at: int
    rules_until: int = 0


_TICKS = msgspec.json.Decoder(TickFields)


class Dispatcher(Step):
    """The deliveries of the assigned partitions; `make_desk` makes the desk of a partition.

    `learn` receives the end offset of the rules. `foreseen`: the controls and the newest ticks that
    exist by now. Records of two topics have no common order: without the foreseen ones, alerts that
    arrived while no dispatcher ran would be decided by an old clock and old silences.
    """

    state_topic = DELIVERIES

    def __init__(
        self,
        calls: WebhookCalls,
        make_desk: EngineFactory,
        prefix: str = "",
        foreseen: Callable[[], Iterable[Input]] = tuple,
        learn: Callable[[int], None] = lambda _until: None,
    ) -> None:
        # Tests use a set of topics of their own, named by the prefix.
        self.state_topic = prefix + DELIVERIES
        # Within one poll, controls are processed first, and alerts only after the ticks that give
        # the current time.
        self.topics = tuple(prefix + name for name in (CONTROLS, TICKS, ALERTS))
        self._read_early_records, self._learn = foreseen, learn
        self._calls = calls
        self._build_engine = make_desk
        self._engines: dict[int, DeliveryEngine] = {}
        self._to_call: list[OutboundMessage] = []
        self._breakers = CircuitBreakers()
        # By partition what was foreseen and not processed yet: the newest tick and ended controls.
        self._early_ticks: dict[int, TickFields] = {}
        self._ended_controls: dict[int, list[bytes]] = {}

    def process(self, record: Input) -> Sequence[Output]:
        """The outputs of an alert, a control or a tick: decisions, messages and tombstones."""
        caught_up = self._apply_early_tick(record.partition)
        if record.value is None:
            return caught_up
        try:
            return [*caught_up, *self._process_value(record, record.value)]
        except (msgspec.DecodeError, BadInstant) as error:
            # Another program wrote this record. Stopping here would block all other deliveries.
            log.error(
                "record not understood and left out",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                reason=str(error)[:200],
            )
            return caught_up

    def _process_value(self, record: Input, value: bytes) -> list[Output]:
        desk, number = self._engine(record.partition), record.partition
        controls, ticks, _alerts = self.topics
        if record.topic == ticks:
            return self._advance_time(number, _TICKS.decode(value))
        if record.topic != controls:
            return self._outputs(number, desk.process_alert(decode_alert(value)))
        control = decode_control(value)
        outputs = self._outputs(number, desk.apply_control(control))
        # An order to redeliver is complete with this transaction, so its record is deleted.
        if isinstance(control, Redelivery):
            outputs.append(self._tombstone(number, record.key))
        return outputs

    def _advance_time(self, partition: int, tick: TickFields) -> list[Output]:
        self._learn(tick.rules_until)
        time = TickTime(n=tick.n, at=tick.at)
        changed = self._engine(partition).advance_time(time)
        return self._outputs(partition, changed)

    def _apply_early_tick(self, partition: int) -> list[Output]:
        """The outputs of the foreseen tick, before other records of the partition are processed."""
        ended = self._ended_controls.pop(partition, ())
        tick = self._early_ticks.pop(partition, None)
        outputs = [self._tombstone(partition, key) for key in ended]
        if tick is not None:
            outputs += self._advance_time(partition, tick)
        return outputs

    def _tombstone(self, partition: int, key: bytes | None) -> Output:
        return Output(self.topics[0], key, None, partition)

    def tick(self) -> Sequence[Output]:
        """The outputs of the calls that have ended, and of the attempts that are due now."""
        outputs: list[Output] = []
        for partition, message, answer in self._calls.take_answers():
            self._breakers.record_answer(message.url, answer)
            # If the partition was revoked, its next owner makes the call again.
            if partition in self._engines:
                changes = self._engines[partition].record_answer(message, answer)
                outputs += self._outputs(partition, changes)
        room = CallCapacity(self._calls.urls(), self._breakers)
        for partition, desk in self._engines.items():
            begun = desk.begin_attempts(self._calls.in_flight(partition), room)
            outputs += self._outputs(partition, begun.records)
            self._to_call += [
                _outbound_message(partition, call, desk.memory.channels.get(call.channel))
                for call in begun.calls
            ]
        return outputs

    def on_commit(self) -> None:
        """Start the calls whose attempts are stored now."""
        to_begin, self._to_call = self._to_call, []
        for placed in to_begin:
            self._calls.begin(placed)

    def close(self) -> None:
        """Abandon the calls in flight: they count as unanswered."""
        self._calls.close()

    def restore(self, state: Iterable[Input]) -> None:
        """Rebuild the desks from their records; calls that had not started are due again.

        Raises Refused for a record that is not the dispatcher's own.
        """
        # Their transaction may have been aborted; if it was committed, they are due again.
        self._to_call = []
        newest: dict[int, dict[bytes, StoredDelivery | None]] = {}
        for record in state:
            delivery = parse_state(record, decode_record) if record.value is not None else None
            # The key moves to the end, so that the last written record is also restored last.
            lane = newest.setdefault(record.partition, {})
            lane.pop(record.key or b"", None)
            lane[record.key or b""] = delivery
        self._engines = {}
        for partition, records in newest.items():
            self._engine(partition).restore(
                entry for entry in records.values() if entry is not None
            )
        self._early_ticks, self._ended_controls = {}, {}
        last: dict[tuple[str, int, bytes | None], Input] = {}
        for record in self._read_early_records():
            # Only the last record of a key: earlier ones were processed long ago and are over.
            last[record.topic, record.partition, record.key] = record
        controls = self.topics[0]
        # Ticks come first, because they decide which controls are over.
        for record in sorted(last.values(), key=lambda record: record.topic == controls):
            self._apply_early(record)

    def _apply_early(self, record: Input) -> None:
        """Apply a tick or a control ahead of its turn; the state gets it when its turn comes.

        A control that is over is not remembered, and its record is deleted.
        """
        number, value = record.partition, record.value or b""
        try:
            if record.topic == self.topics[1]:
                tick = _TICKS.decode(value)
                newest = self._early_ticks.get(number, tick)
                at, rules = max(tick.at, newest.at), max(tick.rules_until, newest.rules_until)
                self._early_ticks[number] = TickFields(max(tick.n, newest.n), at, rules)
                return
            control = decode_control(value)
        # The record is logged when its turn comes.
        except msgspec.DecodeError:
            return
        if self._is_over(number, control):
            self._ended_controls.setdefault(number, []).append(record.key or b"")
        else:
            self._engine(number).apply_control_early(control)

    def _is_over(self, partition: int, control: AlertControl) -> bool:
        now = self._engine(partition).memory.time.at
        if partition in self._early_ticks:
            now = max(now, self._early_ticks[partition].at)
        return retention.is_over(control, now)

    def _engine(self, partition: int) -> DeliveryEngine:
        if partition not in self._engines:
            self._engines[partition] = self._build_engine(partition, self._memories)
        return self._engines[partition]

    def _memories(self) -> Collection[DeliveryMemory]:
        return [desk.memory for desk in self._engines.values()]

    def _outputs(self, partition: int, changes: Iterable[DeliveryChange]) -> list[Output]:
        outputs = []
        for change in changes:
            key = record_key(change)
            outputs.append(Output(self.state_topic, key, encode_record(change), partition))
            # A control that is over is also deleted from the topic of controls.
            if isinstance(change, DroppedRecord) and key.startswith(CONTROL_PREFIX.encode()):
                outputs.append(
                    self._tombstone(partition, key.removeprefix(CONTROL_PREFIX.encode()))
                )
        return outputs


def _outbound_message(
    partition: int, message: WebhookMessage, channel: AlertChannel | None
) -> OutboundMessage:
    # An unknown channel has no secrets, and the call is refused without them.
    return OutboundMessage(partition, message, channel.secrets if channel else ())
