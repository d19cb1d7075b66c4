"""A small world of one webhook: alerts in a topic, a dispatcher that dies, a receiver whose answers
are lost, people who silence.

The rules are those of docs/alerts.md, played action by action; what is decided, which message goes
when and what an answer means is the product's (alerting/deliver). Of the dispatcher's process
there is what matters: memory, what is stored, and that nothing is called before it is.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from alerting.deliver.engine import DeliveryEngine
from alerting.deliver.state.controls import AlertChannel, Silence
from alerting.deliver.state.memory import MINUTE
from alerting.deliver.state.records import (
    DeliveryChange,
    StoredDelivery,
    WebhookMessage,
    decode_record,
    encode_record,
    record_key,
)
from alerting.deliver.state.routing import DeliveryRules
from runtime.outbound.caller import OutboundAnswer
from runtime.outbound.engine import TickTime
from tally.alerts.message import Alert, AlertState
from tests.laws.alerting.worlds.alert_topic import CHANNEL, Evaluator, OneRule
from tests.laws.layers.world import Broken

BEGIN = 1_790_000_000_000
ANSWERED, NOT_ARRIVED, ANSWER_LOST, REFUSED = range(4)


@dataclass(frozen=True)
class DispatcherRules:
    """How the dispatcher works; each field set otherwise is a mistake that somebody could make."""

    engine: Callable[[], DeliveryEngine] = lambda: DeliveryEngine(DeliveryRules(), OneRule())
    stores_before_call: bool = True
    key: Callable[[WebhookMessage], str] = lambda message: message.message_id


@dataclass
class DeliveryWorld:
    """Everything that lasts, the process's memory, and what the receiver has got."""

    rules: DispatcherRules
    fired: Counter[str] = field(default_factory=Counter)
    evaluator: Evaluator = field(default_factory=Evaluator)
    stored: dict[bytes, bytes] = field(default_factory=dict)
    position: int = 0
    ticks: int = 0
    is_silenced: bool = False
    is_upset: bool = False
    is_over: bool = False
    silences: int = 0
    under_way: list[WebhookMessage] = field(default_factory=list)
    # By key, in the order in which they arrived first: states of alerts, and bytes.
    got: dict[str, list[tuple[str, AlertState]]] = field(default_factory=dict)
    bodies: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.engine = self.rules.engine()
        channel = AlertChannel(
            channel_id=CHANNEL,
            url="https://tablet.example/alerts",
            secrets=("tablet",),
            max_age=10**9,
            most_a_minute=10**6,
        )
        self._store(self.engine.apply_control(channel))
        self._pass_time()

    def emit(self, which: int, how: int) -> None:
        """The evaluator tells something."""
        self.evaluator.emit(which, how)

    # What people and the dispatcher do.

    def mute(self, _which: int, _how: int) -> None:
        """Somebody silences everything, or ends that."""
        self.is_silenced = not self.is_silenced
        self.silences += self.is_silenced
        now = self.engine.memory.time.at
        self._store(
            self.engine.apply_control(
                Silence(
                    silence_id=f"s{self.silences}",
                    starts=0,
                    ends=10**15 if self.is_silenced else now,
                )
            )
        )

    def tick(self, _which: int, how: int) -> None:
        """Time passes; what was held may go, what got no answer is due again."""
        self._pass_time((5_000, MINUTE, 10 * MINUTE)[how % 3])

    def take(self, which: int, how: int) -> None:
        """The dispatcher takes the next alert, and its transaction is applied, or is not."""
        if self.position >= len(self.evaluator.topic):
            return
        alert = self.evaluator.topic[self.position]
        is_first = not self.engine.memory.channels_for(alert.alert_id)
        kept = self.engine.process_alert(alert)
        if not self.rules.stores_before_call and is_first and not self.is_silenced:
            # Wrong on purpose: called first, and stored when it is answered.
            called = self._called_first(which)
            kept += called
            if any(one.attempts and one.outcome == "waiting" for one in messages(called)):
                self._restore()
                return
        if how % 4 == 0:
            self.fired["aborted"] += 1
            self._restore()
            return
        self.position += 1
        self._store(kept)
        self._count(alert, kept)

    def deliver(self, _which: int, _how: int) -> None:
        """The calls of those whose turn it is begin."""
        begun = self.engine.begin_attempts(self.under_way)
        self._store(begun.records)
        self.under_way += begun.calls

    def answer(self, which: int, how: int) -> None:
        """What comes of one of the calls."""
        if self.under_way:
            message = self.under_way.pop(which % len(self.under_way))
            mood = REFUSED if self.is_upset else how % 4 if how % 8 < 6 else ANSWERED
            self._store(self._outcome(message, mood))

    def upset(self, _which: int, _how: int) -> None:
        """The receiver refuses everything from now on, or no longer."""
        self.is_upset = not self.is_upset

    def crash(self, _which: int, how: int) -> None:
        """The process dies, and another one restores what is stored; nobody hears what became of
        the calls."""
        self.fired["crashes"] += 1
        self.fired["crashes amid calls"] += bool(self.under_way)
        for number, message in enumerate(self.under_way):
            if how >> number & 1:
                self._arrive(message)
        self.under_way = []
        self._restore()

    def finish(self) -> None:
        """Faults stop, and nobody is silenced: everything is taken, and all is delivered."""
        self.is_upset, self.is_over = False, True
        if self.is_silenced:
            self.mute(0, 0)
        while self.position < len(self.evaluator.topic):
            self.take(0, 1)
        self._pass_time()
        while self.engine.memory.waiting or self.under_way:
            self.deliver(0, 0)
            while self.under_way:
                self.answer(0, ANSWERED)
            # Whatever its back-off says, it is due by then.
            self._pass_time(8 * 60 * MINUTE)
        self._look()

    def _pass_time(self, millis: int = 5_000) -> None:
        self.ticks += 1
        before = self.engine.memory.time.at or BEGIN
        kept = self.engine.advance_time(TickTime(n=self.ticks, at=before + millis))
        self._store(kept)
        self.fired["released"] += sum(getattr(one, "why", "") == "released" for one in kept)
        self.fired["groups"] += sum(one.kind == "group" for one in messages(kept))

    def _called_first(self, which: int) -> list[StoredDelivery]:
        begun = self.engine.begin_attempts(self.under_way)
        kept = [*begun.records]
        how = (ANSWERED, NOT_ARRIVED, ANSWER_LOST)[which % 3] if not self.is_over else ANSWERED
        for message in begun.calls:
            kept += self._outcome(message, how)
        # The last record of each key counts.
        return [*{record_key(one): one for one in kept}.values()]

    def _outcome(self, message: WebhookMessage, how: int) -> list[StoredDelivery]:
        if how in (ANSWERED, ANSWER_LOST):
            self._arrive(message)
        self.fired["answers lost"] += how == ANSWER_LOST
        status = {ANSWERED: 204, REFUSED: 400}.get(how)
        kept = self.engine.record_answer(message, OutboundAnswer(status=status))
        self.fired["refused for good"] += any(one.outcome == "dead" for one in messages(kept))
        return kept

    def _arrive(self, message: WebhookMessage) -> None:
        """The receiver acts once for a key, on each alert that the message tells of."""
        told = [
            (one.alert.alert_id, one.alert.state)
            for alert in self.evaluator.told
            for one in self.engine.memory.decisions_for(CHANNEL, alert.alert_id)
            if one.message == message.message_id and one.verdict == "send"
        ]
        key = self.rules.key(message)
        if self.bodies.setdefault(key, message.body) != message.body:
            raise Broken(f"other bytes under one key: {key}")
        if key not in self.got:
            self.got[key] = told

    def _store(self, kept: Sequence[DeliveryChange]) -> None:
        for one in kept:
            value = encode_record(one)
            # As a topic that is compacted has it: the last record of a key, in its own place.
            self.stored.pop(record_key(one), None)
            if value is not None:
                self.stored[record_key(one)] = value

    def _restore(self) -> None:
        self.engine = self.rules.engine()
        self.engine.restore(decode_record(value) for value in self.stored.values())

    def _count(self, alert: Alert, kept: Sequence[StoredDelivery]) -> None:
        for one in kept:
            if getattr(one, "verdict", "") == "held":
                self.fired["held"] += 1
            if getattr(one, "verdict", "") == "send":
                self.fired[f"{alert.edge} {alert.state}"] += 1
                self.fired["sent in a silence"] += self.is_silenced

    def _look(self) -> None:
        """Raises Broken when the receiver was told what no honest receiver may be told."""
        effects = [one for told in self.got.values() for one in told]
        order = [alert_id for alert_id, _ in effects]
        for told in self.evaluator.told:
            mine = [state for alert_id, state in effects if alert_id == told.alert_id]
            said = [one.state for one in self.evaluator.topic if one.alert_id == told.alert_id]
            if len(mine) != len(set(mine)):
                raise Broken(f"receiver acts twice: {mine}")
            if mine != [state for state in said if state in mine]:
                raise Broken(f"receiver sees {mine} of {said}")
            # Who refuses for good what he may have is told what follows, whether he has it or not.
            if self._is_refused(told.alert_id) or (told.of and self._is_refused(told.of)):
                continue
            if mine == ["retracted"]:
                raise Broken(f"receiver sees {mine} of {said}")
            if mine and told.of and told.of not in order[: order.index(told.alert_id)]:
                raise Broken("an end without its raise before it")
            if mine and said[-1] == "retracted" and mine[-1] != "retracted":
                raise Broken(f"the retraction does not reach the receiver, who has {mine}")
            is_open = told.state != "retracted" and self.evaluator.end_of(told) is None
            if told.edge == "raise" and is_open and not mine:
                raise Broken("a raise that is open was never told")

    def _is_refused(self, alert_id: str) -> bool:
        """Whether the receiver has refused something of the alert for good."""
        memory = self.engine.memory
        return any(one.outcome == "dead" for one in memory.messages_about(CHANNEL, alert_id))


def messages(kept: Sequence[DeliveryChange]) -> list[WebhookMessage]:
    """The messages among records."""
    return [one for one in kept if isinstance(one, WebhookMessage)]


DeliveryAction = tuple[str, int, int]
DELIVERY_ACTIONS = ("emit", "mute", "tick", "take", "deliver", "answer", "upset", "crash")


def play_deliveries(
    rules: DispatcherRules, history: Sequence[DeliveryAction], fired: Counter[str] | None = None
) -> DeliveryWorld:
    """The world after a history. Raises Broken for a receiver who was told wrongly."""
    world = DeliveryWorld(rules, Counter() if fired is None else fired)
    for name, one, other in history:
        getattr(world, name)(one, other)
    world.finish()
    return world
