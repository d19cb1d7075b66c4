"""The delivery desk of a partition: decisions, attempts and their results.

Each method returns the changed records. They are stored in one transaction with the offset of the
input, and calls are made only after that; `begin()` returns these calls.

    take(alert)       a decision for each channel, and the resulting messages
    settle(control)   the change by a control
    pass_time(tick)   ends of holds, digests, summaries of suppressed alerts, heartbeats
    begin()           one more attempt of each message whose turn it is
    answered()        the result of an attempt
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
    """The deliveries of one partition, with their rules and the facts about rules and stores.

    `desks`: returns the memories of all partitions of this process; by default of this one alone.
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
        changed = self._initial_time(alert)
        # A channel with the raise also gets its end, even if its routing has changed since.
        episode = (alert.alert_id, alert.of) if alert.of else (alert.alert_id,)
        decided = [channel for alert_id in episode for channel in self.memory.channels_of(alert_id)]
        wanting = [
            target.channel_id
            for target in self.memory.channels.values()
            if routed(alert, target, facts)
        ]
        # The order is fixed, so that two runs write the same records after any restore.
        for channel in sorted({*decided, *wanting}):
            changed += self._decide_on_channel(channel, alert, facts.kind)
        return changed

    # Held alerts are not checked here; the next tick releases them or keeps them.
    def settle(self, control: AlertControl) -> list[KeptDelivery]:
        """The records that a control changes."""
        if isinstance(control, Redelivery):
            return self._keep(turns.called_anew(self.memory, control))
        return self._keep([control])

    def foresee(self, control: AlertControl) -> None:
        """Applies a control ahead of its turn, unless it is known already or a redelivery."""
        known = isinstance(control, AlertChannel) and (
            self.memory.channels.get(control.channel_id) == control
        )
        # A re-created channel may have a new URL; without this the old 410 would still apply.
        if not known and not isinstance(control, Redelivery):
            self.memory.remember(control)

    def pass_time(self, tick: TickTime) -> list[DeliveryChange]:
        """The records that a tick changes; a tick without news changes nothing.

        Ticks are facts from several tickers, so the larger number and the later instant count.
        """
        time = self.memory.time
        n, at = max(tick.n, time.n), max(tick.at, time.at)
        if (n, at) == (time.n, time.at):
            return []
        newest = TickTime(n=n, at=at, undelivered=self.memory.undelivered(at))
        changed: list[DeliveryChange] = [*self._keep([newest])]
        desks = self._desks()
        # Crowds come first, because quiet hours must not affect the number of silent stores.
        crowds = groups.silent_crowds(self._around, desks)
        changed += self._keep(releases.released(self.memory, self._rules, self._around, crowds))
        changed += self._keep(groups.summaries(self._partition, self._around, desks, crowds))
        changed += self._keep(digest.digests(self.memory, self._around, before=time.at))
        changed += self._keep(heartbeats.heartbeats(self.memory, self._partition))
        if newest.at // MINUTE != time.at // MINUTE:
            changed += self._keep(reminders.reminders(self.memory, self._rules, self._around))
        # Once a day is enough, because this goes through all records.
        is_new_day = newest.at // retention.DAY != time.at // retention.DAY
        return [*changed, *(self._drop_outdated() if is_new_day else ())]

    def begin(
        self, under_way: Collection[WebhookMessage], room: CallRoom | None = None
    ) -> BegunAttempts:
        """The messages whose turn it is, with one more attempt, except those under way.

        An expired message, or one that depends on an alert that never arrived, ends instead.
        `room`: the remaining capacity for calls, by default as if no other partition called.
        """
        remaining = room or CallRoom((message.url for message in under_way), Breakers())
        return turns.begun_attempts(self.memory, self._around, under_way, remaining)

    def answered(self, called: WebhookMessage, answer: WebhookAnswer) -> list[KeptDelivery]:
        """The records that an answer changes; an answer to an earlier attempt changes nothing."""
        known = self.memory.messages.get(called.key)
        is_current = known is not None and known.message_id == called.message_id
        if known is None or not is_current or known.attempts != called.attempts:
            return []
        # A late answer does not revive a message that was given up with its address meanwhile.
        if known.outcome not in ("waiting", "unknown"):
            return []
        now = self.memory.time.at
        after = attempts.answered(known, answer, now)
        if attempts.meaning(answer) != "gone":
            return self._keep([after])
        gone = GoneAddress(channel=after.channel, url=after.url, at=now)
        # The message itself is one of the waiting ones, and its own record is written last.
        others = [
            structs.replace(message, outcome="dead", cause=after.cause)
            for message in self.memory.waiting.values()
            if (message.channel, message.url) == (after.channel, after.url)
        ]
        return self._keep([gone, *others, after])

    def restore(self, records: Iterable[KeptDelivery]) -> None:
        """Replaces the memory with these records."""
        self.memory = DeliveryMemory()
        for record in records:
            self.memory.remember(record)

    def _keep(self, records: Sequence[KeptDelivery]) -> list[KeptDelivery]:
        for record in records:
            self.memory.remember(record)
        return [*records]

    def _drop_outdated(self) -> list[DroppedRecord]:
        outdated = retention.outdated(self.memory)
        for record in outdated:
            self.memory.forget(record)
        return [DroppedRecord(kept_key(record)) for record in outdated]

    def _initial_time(self, alert: Alert) -> list[KeptDelivery]:
        # Before the very first tick, the alert has the only known instant.
        if self.memory.time.at:
            return []
        return self._keep([TickTime(n=0, at=millis_of(alert.raised_at))])

    def _decide_on_channel(self, channel_id: str, alert: Alert, kind: str) -> list[KeptDelivery]:
        decisions = self.memory.told(channel_id, alert.alert_id)
        is_known = any(earlier.alert.state == alert.state for earlier in decisions)
        # Without an earlier decision on this channel there is nothing to retract.
        if is_known or (not decisions and alert.state == "retracted"):
            return []
        channel, time = self.memory.channels[channel_id], self.memory.time
        verdict, why = self._decide(alert, channel, decisions, kind)
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
        # The message comes first, so that a decision never names a missing message.
        return self._keep([message, decision] if message else [decision])

    def _decide(
        self, alert: Alert, channel: AlertChannel, earlier: Sequence[DeliveryDecision], kind: str
    ) -> tuple[DeliveryVerdict, DeliveryReason]:
        held = self._hold_reason(alert, channel)
        if not earlier:
            return self._rules.first(self._first_state(alert, channel, held, kind))
        verdict = self._rules.later(earlier, held)
        has_gone_out = any(self.memory.carrying(channel.channel_id, alert.alert_id))
        is_left_out = verdict == "send" and alert.state in channel.leaves_out and has_gone_out
        return verdict, _LEFT_OUT if is_left_out else "followed"

    def _first_state(
        self, alert: Alert, channel: AlertChannel, held: DeliveryReason, kind: str
    ) -> FirstState:
        now = self.memory.time.at
        # The rate limit holds for a channel over all partitions of this process.
        memories = self._desks().values()
        return FirstState(
            alert=alert,
            channel=channel,
            now=now,
            held=held,
            raised=self.memory.plan(channel.channel_id, alert.of),
            sent=sum(
                memory.sent_in(channel.channel_id, now // MINUTE, alert.severity)
                for memory in memories
            ),
            is_silence=kind == "silence",
        )

    def _hold_reason(self, alert: Alert, channel: AlertChannel) -> DeliveryReason:
        zone = self._around.store(alert.store_id).zone
        return holding(alert, channel, self.memory.holds, (self.memory.time.at, zone))

    def _message(self, alert: Alert, channel: AlertChannel) -> WebhookMessage:
        now, zone = self.memory.time.at, self._around.store(alert.store_id).zone
        # Quiet hours delay a message that follows a raise; the raise itself would be held.
        due = quiet_end(channel, (now, zone)) or now
        message = releases.alert_message(alert, channel, self.memory, self._rules)
        return structs.replace(message, due_at=due)
