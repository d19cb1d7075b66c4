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
from tally.alerts.delivery.controls import AlertChannel, parsed_control
from tally.alerts.delivery.desk import Desk
from tally.alerts.delivery.many_silent import DeskMemories
from tally.alerts.delivery.records import (
    DeliveryChange,
    KeptDelivery,
    TickTime,
    WebhookMessage,
    kept_key,
    kept_value,
    parsed_kept,
)
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
    `settled`: the controls that there are by now. Between two topics records have no order: who
    begins with an alert would tell nobody of it, or somebody who is asleep, before he has come to
    what was settled long ago.
    """

    state_topic = DELIVERIES

    def __init__(
        self,
        calls: WebhookCalls,
        make_desk: DeskMaker,
        prefix: str = "",
        settled: Callable[[], Iterable[Input]] = tuple,
        learn: Callable[[int], None] = lambda _until: None,
    ) -> None:
        # A test's topics are a set of their own.
        self.state_topic = prefix + DELIVERIES
        # Of what one poll brings controls are taken first.
        self.topics = tuple(prefix + name for name in (CONTROLS, ALERTS, TICKS))
        self._settled, self._learn = settled, learn
        self._calls = calls
        self._make_desk = make_desk
        self._desks: dict[int, Desk] = {}
        self._to_call: list[PlacedMessage] = []

    def process(self, record: Input) -> Sequence[Output]:
        """The decisions that follow from an alert, a control or a tick."""
        if record.value is None:
            return ()
        desk = self._desk(record.partition)
        controls, alerts, _ticks = self.topics
        kept: Sequence[DeliveryChange]
        try:
            if record.topic == alerts:
                kept = desk.take(alert_of(record.value))
            elif record.topic == controls:
                kept = desk.settle(parsed_control(record.value))
            else:
                tick = _TICKS.decode(record.value)
                self._learn(tick.rules_until)
                kept = desk.pass_time(TickTime(n=tick.n, at=tick.at))
        except (msgspec.DecodeError, BadInstant) as error:
            # Written by somebody else. To end here would keep all others from being told.
            log.error(
                "record not understood and left out",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                reason=str(error)[:200],
            )
            return ()
        return self._outputs(record.partition, kept)

    def tick(self) -> Sequence[Output]:
        """What came of the calls that have ended, and the attempts that are to begin now."""
        outputs: list[Output] = []
        for partition, message, answer in self._calls.take_answers():
            # Of a partition that was given away, its next owner calls again.
            if partition in self._desks:
                kept = self._desks[partition].answered(message, answer)
                outputs += self._outputs(partition, kept)
        for partition, desk in self._desks.items():
            begun = desk.begin(self._calls.under_way(partition))
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
        # Only the last of a key: what an earlier one said was taken long ago, and is over.
        last = {(one.partition, one.key): one for one in self._settled()}
        for record in last.values():
            self._foresee(record)

    def _foresee(self, record: Input) -> None:
        """What a control says holds before its turn; into the state it comes with that."""
        try:
            control = parsed_control(record.value or b"")
        # Told of when its turn comes.
        except msgspec.DecodeError:
            return
        self._desk(record.partition).foresee(control)

    def _desk(self, partition: int) -> Desk:
        if partition not in self._desks:
            self._desks[partition] = self._make_desk(partition, self._memories)
        return self._desks[partition]

    def _memories(self) -> DeskMemories:
        return {number: desk.memory for number, desk in self._desks.items()}

    def _outputs(self, partition: int, kept: Iterable[DeliveryChange]) -> list[Output]:
        return [Output(self.state_topic, kept_key(one), kept_value(one), partition) for one in kept]


def _placed(partition: int, message: WebhookMessage, channel: AlertChannel | None) -> PlacedMessage:
    # Of a channel that nobody has set up no secret is known, so nobody is called.
    if channel is None:
        return PlacedMessage(partition, message, ())
    return PlacedMessage(partition, message, channel.secrets, channel.digest_as)
