"""A partition's deliveries: what is decided, what is called for, and what came of it.

Each method gives the records that have changed. They are stored in one transaction with the
position of what was taken, and only then is anything called: `begin()` says what.

    take(alert)       a decision for each channel, and the messages that follow from it
    settle(control)   what somebody has settled
    pass_time(tick)   ends of holds, digests, numbers of what was suppressed, heartbeats
    begin()           one more attempt of each message whose turn it is
    answered()        what came of an attempt
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import structs

from tally.alerts.delivery import (
    attempts,
    digest,
    groups,
    heartbeats,
    releases,
    reminders,
    retention,
    turns,
)
from tally.alerts.delivery.attempts import WebhookAnswer
from tally.alerts.delivery.controls import AlertChannel, AlertControl, Redelivery
from tally.alerts.delivery.deciding import (
    DeliveryRules,
    FirstState,
    Surroundings,
    holding,
    millis_of,
    quiet_end,
    routed,
)
from tally.alerts.delivery.groups import DeskMemories
from tally.alerts.delivery.memory import MINUTE, DeliveryMemory
from tally.alerts.delivery.records import (
    DeliveryChange,
    DeliveryDecision,
    DeliveryReason,
    DeliveryVerdict,
    DroppedRecord,
    GoneAddress,
    KeptDelivery,
    TickTime,
    WebhookMessage,
    kept_key,
)
from tally.alerts.delivery.room import Breakers, CallRoom
from tally.alerts.delivery.turns import BegunAttempts
from tally.alerts.message import Alert

_LEFT_OUT: DeliveryReason = "left out"


class Desk:
    """One partition's deliveries, by the rules, with what rules and stores are like.

    `desks`: what is remembered of all partitions of this process; by default of this one alone.
    """

    def __init__(
        self,
        rules: DeliveryRules,
        around: Surroundings,
        partition: int = 0,
        desks: Callable[[], DeskMemories] | None = None,
    ) -> None:
        self.memory = DeliveryMemory()
        self._desks = desks or (lambda: {partition: self.memory})
        self._rules = rules
        self._around = around
        self._partition = partition

    def take(self, alert: Alert) -> list[KeptDelivery]:
        """The decisions about one state of an alert, each with its message if it has one.

        A state that was taken before changes nothing. Raises BadInstant for an alert with one.
        """
        facts = self._around.rule(alert.rule_id, alert.rule_version)
        kept = self._first_time(alert)
        # Who has a raise gets its end, whatever the channel takes by now.
        episode = (alert.alert_id, alert.of) if alert.of else (alert.alert_id,)
        decided = [channel for one in episode for channel in self.memory.channels_of(one)]
        wanting = [
            one.channel_id for one in self.memory.channels.values() if routed(alert, one, facts)
        ]
        # In one order, whatever was restored before: the records of two runs are then the same.
        for channel in sorted({*decided, *wanting}):
            kept += self._told_on(channel, alert, facts.kind)
        return kept

    # What is held is not looked through here: with the next tick it goes, or stays.
    def settle(self, control: AlertControl) -> list[KeptDelivery]:
        """What a control changes."""
        if isinstance(control, Redelivery):
            return self._keep(turns.called_anew(self.memory, control))
        return self._keep([control])

    def foresee(self, control: AlertControl) -> None:
        """Let a control hold that will be taken later; none that is known already, nor an order."""
        known = isinstance(control, AlertChannel) and (
            self.memory.channels.get(control.channel_id) == control
        )
        # A channel that is set anew has another address: the one that was gone stays so else.
        if not known and not isinstance(control, Redelivery):
            self.memory.remember(control)

    def pass_time(self, tick: TickTime) -> list[DeliveryChange]:
        """What a tick brings about; one that says nothing new changes nothing.

        Ticks are facts, and of several tickers: of number and instant the larger counts.
        """
        time = self.memory.time
        n, at = max(tick.n, time.n), max(tick.at, time.at)
        if (n, at) == (time.n, time.at):
            return []
        newest = TickTime(n=n, at=at, undelivered=self.memory.undelivered(at))
        kept: list[DeliveryChange] = [*self._keep([newest])]
        desks = self._desks()
        # Before any other hold: how many stores are silent does not hang on who is asleep.
        crowds = groups.silent_crowds(self._around, desks)
        kept += self._keep(releases.released(self.memory, self._rules, self._around, crowds))
        kept += self._keep(groups.summaries(self._partition, self._around, desks, crowds))
        kept += self._keep(digest.digests(self.memory, self._around, before=time.at))
        kept += self._keep(heartbeats.heartbeats(self.memory, self._partition))
        if newest.at // MINUTE != time.at // MINUTE:
            kept += self._keep(reminders.reminders(self.memory, self._rules, self._around))
        # Once a day is enough: to look through everything takes its time.
        is_new_day = newest.at // retention.DAY != time.at // retention.DAY
        return [*kept, *(self._dropped() if is_new_day else ())]

    def begin(
        self, under_way: Collection[WebhookMessage], room: CallRoom | None = None
    ) -> BegunAttempts:
        """The messages whose turn it is, with one more attempt, but for those that are under way.

        One that has had its time, or tells the end of what nobody has, comes to its end instead;
        `room`: what the bounds leave, by default as if no other partition called.
        """
        left = room or CallRoom((message.url for message in under_way), Breakers())
        return turns.begun_attempts(self.memory, self._around, under_way, left)

    def answered(self, called: WebhookMessage, answer: WebhookAnswer) -> list[KeptDelivery]:
        """What the answer to a call changes; an answer to an earlier attempt changes nothing."""
        known = self.memory.messages.get(called.key)
        is_current = known is not None and known.message_id == called.message_id
        if known is None or not is_current or known.attempts != called.attempts:
            return []
        # What was given up meanwhile, with its address, is not taken up by a late answer.
        if known.outcome not in ("waiting", "unknown"):
            return []
        now = self.memory.time.at
        after = attempts.answered(known, answer, now)
        if attempts.meaning(answer) != "gone":
            return self._keep([after])
        gone = GoneAddress(channel=after.channel, url=after.url, at=now)
        # The message itself is one of them, and is kept last.
        others = [
            structs.replace(one, outcome="dead", cause=after.cause)
            for one in self.memory.waiting.values()
            if (one.channel, one.url) == (after.channel, after.url)
        ]
        return self._keep([gone, *others, after])

    def restore(self, kept: Iterable[KeptDelivery]) -> None:
        """Begin anew with these records."""
        self.memory = DeliveryMemory()
        for one in kept:
            self.memory.remember(one)

    def _keep(self, kept: Sequence[KeptDelivery]) -> list[KeptDelivery]:
        for one in kept:
            self.memory.remember(one)
        return [*kept]

    def _dropped(self) -> list[DroppedRecord]:
        outdated = retention.outdated(self.memory)
        for one in outdated:
            self.memory.forget(one)
        return [DroppedRecord(kept_key(one)) for one in outdated]

    def _first_time(self, alert: Alert) -> list[KeptDelivery]:
        # Until the first tick of all what is known of the time is what the alert says.
        if self.memory.time.at:
            return []
        return self._keep([TickTime(n=0, at=millis_of(alert.raised_at))])

    def _told_on(self, channel_id: str, alert: Alert, kind: str) -> list[KeptDelivery]:
        told = self.memory.told(channel_id, alert.alert_id)
        is_known = any(one.alert.state == alert.state for one in told)
        # What nobody was told of is not taken back.
        if is_known or (not told and alert.state == "retracted"):
            return []
        channel, time = self.memory.channels[channel_id], self.memory.time
        verdict, why = self._decided(alert, channel, told, kind)
        message = self._message(alert, channel) if verdict == "send" and why != _LEFT_OUT else None
        decision = DeliveryDecision(
            channel=channel_id,
            alert=alert,
            verdict=verdict,
            why=why,
            message=message.message_id if message else "",
            at=time.at,
            tick=time.n,
        )
        # The message first: who looks for what a decision names finds it.
        return self._keep([message, decision] if message else [decision])

    def _decided(
        self, alert: Alert, channel: AlertChannel, told: Sequence[DeliveryDecision], kind: str
    ) -> tuple[DeliveryVerdict, DeliveryReason]:
        held = self._held(alert, channel)
        if not told:
            return self._rules.first(self._asked(alert, channel, held, kind))
        verdict = self._rules.later(told, held)
        has_gone_out = any(self.memory.carrying(channel.channel_id, alert.alert_id))
        is_left_out = verdict == "send" and alert.state in channel.leaves_out and has_gone_out
        return verdict, _LEFT_OUT if is_left_out else "followed"

    def _asked(
        self, alert: Alert, channel: AlertChannel, held: DeliveryReason, kind: str
    ) -> FirstState:
        now = self.memory.time.at
        # Whoever is called does not know of partitions.
        each = self._desks().values()
        return FirstState(
            alert=alert,
            channel=channel,
            now=now,
            held=held,
            raised=self.memory.plan(channel.channel_id, alert.of),
            sent=sum(
                one.sent_in(channel.channel_id, now // MINUTE, alert.severity) for one in each
            ),
            is_silence=kind == "silence",
        )

    def _held(self, alert: Alert, channel: AlertChannel) -> DeliveryReason:
        zone = self._around.store(alert.store_id).zone
        return holding(alert, channel, self.memory.holds, (self.memory.time.at, zone))

    def _message(self, alert: Alert, channel: AlertChannel) -> WebhookMessage:
        now, zone = self.memory.time.at, self._around.store(alert.store_id).zone
        # What follows a raise is not lost in quiet hours, and wakes nobody. The raise itself would
        # be held.
        due = quiet_end(channel, (now, zone)) or now
        message = releases.alert_message(alert, channel, self.memory, self._rules)
        return structs.replace(message, due_at=due)
