"""The dispatcher's step: alerts, controls and ticks to decisions, messages and their outcomes.

    process(alert)     decisions and messages, into the state
    tick()             outcomes of calls, and the attempts whose turn it is, into the state
    stored()           now that they are stored: the calls

A call is never made before its attempt is stored, and never within a transaction. Whoever restores
the state finds each attempt, with or without its outcome, and goes on as if no answer had come.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec
import structlog

from runtime.processor.record import Input, Output, parsed_state
from runtime.processor.step import Step
from serving.alerts.dispatch.calls import PlacedMessage, WebhookCalls
from tally.alerts.delivery import retention
from tally.alerts.delivery.controls import AlertChannel, AlertControl, Redelivery, parsed_control
from tally.alerts.delivery.desk import Desk
from tally.alerts.delivery.groups import DeskMemories
from tally.alerts.delivery.records import (
    CONTROL,
    DeliveryChange,
    DroppedRecord,
    KeptDelivery,
    TickTime,
    WebhookMessage,
    kept_key,
    kept_value,
    parsed_kept,
)
from tally.alerts.delivery.room import Breakers, CallRoom
from tally.alerts.message import alert_of
from tally.errors import BadInstant

ALERTS, CONTROLS, TICKS, DELIVERIES = "alerts", "alert-controls", "ticks", "alert-deliveries"
# Of a partition, with what is remembered of all that are ours.
DeskMaker = Callable[[int, Callable[[], DeskMemories]], Desk]

log = structlog.get_logger()


class ReadTick(msgspec.Struct, frozen=True):
    """Of a tick its number, its instant (ms since 1970, UTC), and where the rules end."""

    n: int
    at: int
    rules_until: int = 0


_TICKS = msgspec.json.Decoder(ReadTick)


class Dispatcher(Step):
    """The deliveries of the partitions that are ours; `make_desk` makes that of a partition.

    `learn` is told up to which offset there are rules.
    `foreseen`: the controls and the newest ticks that there are by now. Between two topics records
    have no order: without them the alerts of a time in which no dispatcher ran would be decided by
    the clock and the silences of before.
    """

    state_topic = DELIVERIES

    def __init__(
        self,
        calls: WebhookCalls,
        make_desk: DeskMaker,
        prefix: str = "",
        foreseen: Callable[[], Iterable[Input]] = tuple,
        learn: Callable[[int], None] = lambda _until: None,
    ) -> None:
        # A test's topics are a set of their own.
        self.state_topic = prefix + DELIVERIES
        # Of what one poll brings controls are taken first, and alerts when it is known how late it
        # is.
        self.topics = tuple(prefix + name for name in (CONTROLS, TICKS, ALERTS))
        self._foreseen, self._learn = foreseen, learn
        self._calls = calls
        self._make_desk = make_desk
        self._desks: dict[int, Desk] = {}
        self._to_call: list[PlacedMessage] = []
        self._breakers = Breakers()
        # By partition what was foreseen and is not taken yet: its newest tick, ended controls.
        self._newest: dict[int, ReadTick] = {}
        self._ended: dict[int, list[bytes]] = {}

    def process(self, record: Input) -> Sequence[Output]:
        """The decisions that follow from an alert, a control or a tick."""
        caught_up = self._catch_up(record.partition)
        if record.value is None:
            return caught_up
        try:
            return [*caught_up, *self._taken(record, record.value)]
        except (msgspec.DecodeError, BadInstant) as error:
            # Written by somebody else. To end here would keep all others from being told.
            log.error(
                "record not understood and left out",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                reason=str(error)[:200],
            )
            return caught_up

    def _taken(self, record: Input, value: bytes) -> list[Output]:
        desk, number = self._desk(record.partition), record.partition
        controls, ticks, _alerts = self.topics
        if record.topic == ticks:
            return self._pass_time(number, _TICKS.decode(value))
        if record.topic != controls:
            return self._outputs(number, desk.take(alert_of(value)))
        control = parsed_control(value)
        outputs = self._outputs(number, desk.settle(control))
        # An order is carried out with this transaction, and nothing is to be left of it.
        if isinstance(control, Redelivery):
            outputs.append(self._tombstone(number, record.key))
        return outputs

    def _pass_time(self, partition: int, tick: ReadTick) -> list[Output]:
        self._learn(tick.rules_until)
        time = TickTime(n=tick.n, at=tick.at)
        changed = self._desk(partition).pass_time(time)
        return self._outputs(partition, changed)

    def _catch_up(self, partition: int) -> list[Output]:
        """What the foreseen tick brings about, before anything else of the partition is taken."""
        ended = self._ended.pop(partition, ())
        tick = self._newest.pop(partition, None)
        outputs = [self._tombstone(partition, key) for key in ended]
        if tick is not None:
            outputs += self._pass_time(partition, tick)
        return outputs

    def _tombstone(self, partition: int, key: bytes | None) -> Output:
        return Output(self.topics[0], key, None, partition)

    def tick(self) -> Sequence[Output]:
        """What came of the calls that have ended, and the attempts that are to begin now."""
        outputs: list[Output] = []
        for partition, message, answer in self._calls.take_answers():
            self._breakers.note(message.url, answer)
            # Of a partition that was given away, its next owner calls again.
            if partition in self._desks:
                kept = self._desks[partition].answered(message, answer)
                outputs += self._outputs(partition, kept)
        room = CallRoom(self._calls.urls(), self._breakers)
        for partition, desk in self._desks.items():
            begun = desk.begin(self._calls.under_way(partition), room)
            outputs += self._outputs(partition, begun.kept)
            self._to_call += [
                _placed(partition, one, desk.memory.channels.get(one.channel))
                for one in begun.calls
            ]
        return outputs

    def stored(self) -> None:
        """Begin the calls whose attempts are stored now."""
        placed, self._to_call = self._to_call, []
        for one in placed:
            self._calls.begin(one)

    def close(self) -> None:
        """Give up the calls under way: they count as unanswered."""
        self._calls.close()

    def restore(self, state: Iterable[Input]) -> None:
        """The desks as their records say; calls that were to begin are found there as due again.

        Raises Refused for a record that is none of ours.
        """
        # They were of a transaction that may not count; if it does, they are due again.
        self._to_call = []
        newest: dict[int, dict[bytes, KeptDelivery | None]] = {}
        for record in state:
            kept = parsed_state(record, parsed_kept) if record.value is not None else None
            # Later in its place: what was written last is also taken last.
            lane = newest.setdefault(record.partition, {})
            lane.pop(record.key or b"", None)
            lane[record.key or b""] = kept
        self._desks = {}
        for partition, records in newest.items():
            self._desk(partition).restore(one for one in records.values() if one is not None)
        self._newest, self._ended = {}, {}
        last: dict[tuple[str, int, bytes | None], Input] = {}
        for record in self._foreseen():
            # Only the last of a key: what an earlier one said was taken long ago, and is over.
            last[record.topic, record.partition, record.key] = record
        controls = self.topics[0]
        # Ticks first: they say which controls are over.
        for record in sorted(last.values(), key=lambda record: record.topic == controls):
            self._foresee(record)

    def _foresee(self, record: Input) -> None:
        """What a tick or a control says holds before its turn; into the state it comes with that.

        A control that is over is not remembered, and its record is deleted.
        """
        number, value = record.partition, record.value or b""
        try:
            if record.topic == self.topics[1]:
                tick = _TICKS.decode(value)
                known = self._newest.get(number, tick)
                at, rules = max(tick.at, known.at), max(tick.rules_until, known.rules_until)
                self._newest[number] = ReadTick(max(tick.n, known.n), at, rules)
                return
            control = parsed_control(value)
        # Told of when its turn comes.
        except msgspec.DecodeError:
            return
        if self._is_over(number, control):
            self._ended.setdefault(number, []).append(record.key or b"")
        else:
            self._desk(number).foresee(control)

    def _is_over(self, partition: int, control: AlertControl) -> bool:
        now = self._desk(partition).memory.time.at
        if partition in self._newest:
            now = max(now, self._newest[partition].at)
        return retention.is_over(control, now)

    def _desk(self, partition: int) -> Desk:
        if partition not in self._desks:
            self._desks[partition] = self._make_desk(partition, self._memories)
        return self._desks[partition]

    def _memories(self) -> DeskMemories:
        return {number: desk.memory for number, desk in self._desks.items()}

    def _outputs(self, partition: int, kept: Iterable[DeliveryChange]) -> list[Output]:
        outputs = []
        for one in kept:
            key = kept_key(one)
            outputs.append(Output(self.state_topic, key, kept_value(one), partition))
            # What is over is deleted where people have settled it, too.
            if isinstance(one, DroppedRecord) and key.startswith(CONTROL.encode()):
                outputs.append(self._tombstone(partition, key.removeprefix(CONTROL.encode())))
        return outputs


def _placed(partition: int, message: WebhookMessage, channel: AlertChannel | None) -> PlacedMessage:
    # Of a channel that nobody has set up no secret is known, so nobody is called.
    if channel is None:
        return PlacedMessage(partition, message, ())
    return PlacedMessage(partition, message, channel.secrets, channel.digest_as)
