"""The delivery desk of a partition: decisions, attempts and their results.

Each method returns the changed records. They are stored in one transaction with the offset of the
input, and calls are made only after that; `begin_attempts()` returns these calls.

    take(alert)       a decision for each channel, and the resulting messages
    settle(control)   the change by a control
    pass_time(tick)   ends of holds, digests, summaries of suppressed alerts, heartbeats
    begin()           one more attempt of each message whose turn it is
    answered()        the result of an attempt
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import structs

from alerting.deliver.engine import (
    digest,
    heartbeats,
    releases,
    reminders,
    retention,
    summaries,
    turns,
)
from alerting.deliver.engine.turns import StartedAttempts
from alerting.deliver.state import attempts
from alerting.deliver.state.attempts import WebhookAnswer
from alerting.deliver.state.call_limits import CallCapacity, CircuitBreakers
from alerting.deliver.state.controls import AlertChannel, AlertControl, Redelivery
from alerting.deliver.state.memory import MINUTE, DeliveryMemory
from alerting.deliver.state.records import (
    DeliveryChange,
    DeliveryDecision,
    DeliveryReason,
    DeliveryVerdict,
    GoneAddress,
    StoredDelivery,
    WebhookMessage,
    record_key,
)
from alerting.deliver.state.routing import (
    DeliveryContext,
    DeliveryRules,
    FirstState,
    hold_reason,
    instant_millis,
    matches_channel,
    quiet_end,
)
from runtime.outbound.records import DroppedRecord, TickTime
from tally.alerts.message import Alert
from tally.time.instants import DAY_MILLIS

_LEFT_OUT: DeliveryReason = "left out"


class DeliveryEngine:
    """The deliveries of one partition, with their rules and the facts about rules and stores.

    `memories`: returns those of all partitions of this process; by default of this one alone.
    """

    def __init__(
        self,
        rules: DeliveryRules,
        around: DeliveryContext,
        partition: int = 0,
        memories: Callable[[], Collection[DeliveryMemory]] | None = None,
    ) -> None:
        self.memory = DeliveryMemory()
        self._memories = memories or (lambda: [self.memory])
        self._rules = rules
        self._context = around
        self._partition = partition

    def process_alert(self, alert: Alert) -> list[StoredDelivery]:
        """The decisions about one state of an alert, each with its message if it has one.

        A state that was taken before changes nothing. Raises BadInstant for an alert with one.
        """
        named = self._context.rule_channels(alert.rule_id, alert.rule_version)
        changed = self._initial_time(alert)
        # A channel with the raise also gets its end, even if its routing has changed since.
        episode = (alert.alert_id, alert.of) if alert.of else (alert.alert_id,)
        decided = [
            channel for alert_id in episode for channel in self.memory.channels_for(alert_id)
        ]
        wanting = [
            target.channel_id
            for target in self.memory.channels.values()
            if matches_channel(alert, target, named)
        ]
        # The order is fixed, so that two runs write the same records after any restore.
        for channel in sorted({*decided, *wanting}):
            changed += self._decide_on_channel(channel, alert)
        return changed

    # Held alerts are not checked here; the next tick releases them or keeps them.
    def apply_control(self, control: AlertControl) -> list[StoredDelivery]:
        """The records that a control changes."""
        if isinstance(control, Redelivery):
            return self._remember(turns.reset_for_redelivery(self.memory, control))
        return self._remember([control])

    def apply_control_early(self, control: AlertControl) -> None:
        """Applies a control ahead of its turn, unless it is known already or a redelivery."""
        known = isinstance(control, AlertChannel) and (
            self.memory.channels.get(control.channel_id) == control
        )
        # A re-created channel may have a new URL; without this the old 410 would still apply.
        if not known and not isinstance(control, Redelivery):
            self.memory.remember(control)

    def advance_time(self, tick: TickTime) -> list[DeliveryChange]:
        """The records that a tick changes; a tick without news changes nothing.

        Ticks are facts from several tickers, so the larger number and the later instant count.
        """
        time = self.memory.time
        n, at = max(tick.n, time.n), max(tick.at, time.at)
        if (n, at) == (time.n, time.at):
            return []
        newest = TickTime(n=n, at=at, undelivered=self.memory.summarise_undelivered(at))
        changed: list[DeliveryChange] = [*self._remember([newest])]
        changed += self._remember(releases.release_alerts(self.memory, self._rules, self._context))
        changed += self._remember(
            summaries.build_summaries(self.memory, self._partition, self._context)
        )
        changed += self._remember(digest.build_digests(self.memory, self._context, before=time.at))
        changed += self._remember(heartbeats.build_heartbeats(self.memory, self._partition))
        if newest.at // MINUTE != time.at // MINUTE:
            changed += self._remember(
                reminders.build_reminders(self.memory, self._rules, self._context)
            )
        # Once a day is enough, because this goes through all records.
        is_new_day = newest.at // DAY_MILLIS != time.at // DAY_MILLIS
        return [*changed, *(self._drop_outdated() if is_new_day else ())]

    def begin_attempts(
        self, under_way: Collection[WebhookMessage], room: CallCapacity | None = None
    ) -> StartedAttempts:
        """The messages whose turn it is, with one more attempt, except those under way.

        An expired message, or one that depends on an alert that never arrived, ends instead.
        `room`: the remaining capacity for calls, by default as if no other partition called.
        """
        remaining = room or CallCapacity((message.url for message in under_way), CircuitBreakers())
        return turns.begin_due_attempts(self.memory, self._context, under_way, remaining)

    def record_answer(self, called: WebhookMessage, answer: WebhookAnswer) -> list[StoredDelivery]:
        """The records that an answer changes; an answer to an earlier attempt changes nothing."""
        known = self.memory.messages.get(called.key)
        is_current = known is not None and known.message_id == called.message_id
        if known is None or not is_current or known.attempts != called.attempts:
            return []
        # A late answer does not revive a message that was given up with its address meanwhile.
        if known.outcome not in ("waiting", "unknown"):
            return []
        now = self.memory.time.at
        after = attempts.apply_answer(known, answer, now)
        if attempts.classify_answer(answer) != "gone":
            return self._remember([after])
        gone = GoneAddress(channel=after.channel, url=after.url, at=now)
        # The message itself is one of the waiting ones, and its own record is written last.
        others = [
            structs.replace(message, outcome="dead", cause=after.cause)
            for message in self.memory.waiting.values()
            if (message.channel, message.url) == (after.channel, after.url)
        ]
        return self._remember([gone, *others, after])

    def restore(self, records: Iterable[StoredDelivery]) -> None:
        """Replaces the memory with these records."""
        self.memory = DeliveryMemory()
        for record in records:
            self.memory.remember(record)

    def _remember(self, records: Sequence[StoredDelivery]) -> list[StoredDelivery]:
        for record in records:
            self.memory.remember(record)
        return [*records]

    def _drop_outdated(self) -> list[DroppedRecord]:
        outdated = retention.find_outdated(self.memory)
        for record in outdated:
            self.memory.forget(record)
        return [DroppedRecord(record_key(record)) for record in outdated]

    def _initial_time(self, alert: Alert) -> list[StoredDelivery]:
        # Before the very first tick, the alert has the only known instant.
        if self.memory.time.at:
            return []
        return self._remember([TickTime(n=0, at=instant_millis(alert.raised_at))])

    def _decide_on_channel(self, channel_id: str, alert: Alert) -> list[StoredDelivery]:
        decisions = self.memory.decisions_for(channel_id, alert.alert_id)
        is_known = any(earlier.alert.state == alert.state for earlier in decisions)
        # Without an earlier decision on this channel there is nothing to retract.
        if is_known or (not decisions and alert.state == "retracted"):
            return []
        channel, time = self.memory.channels[channel_id], self.memory.time
        verdict, why = self._decide(alert, channel, decisions)
        message = (
            self._build_message(alert, channel) if verdict == "send" and why != _LEFT_OUT else None
        )
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
        return self._remember([message, decision] if message else [decision])

    def _decide(
        self, alert: Alert, channel: AlertChannel, earlier: Sequence[DeliveryDecision]
    ) -> tuple[DeliveryVerdict, DeliveryReason]:
        held = self._hold_reason(alert, channel)
        if not earlier:
            return self._rules.decide_first(self._first_state(alert, channel, held))
        verdict = self._rules.decide_later(earlier, held)
        has_gone_out = any(self.memory.messages_about(channel.channel_id, alert.alert_id))
        is_left_out = verdict == "send" and alert.state in channel.leaves_out and has_gone_out
        return verdict, _LEFT_OUT if is_left_out else "followed"

    def _first_state(self, alert: Alert, channel: AlertChannel, held: DeliveryReason) -> FirstState:
        now = self.memory.time.at
        # The rate limit holds for a channel over all partitions of this process.
        return FirstState(
            alert=alert,
            channel=channel,
            now=now,
            hold_reason=held,
            raise_verdict=self.memory.alert_verdict(channel.channel_id, alert.of),
            sent_count=sum(
                memory.count_sent(channel.channel_id, now // MINUTE, alert.severity)
                for memory in self._memories()
            ),
        )

    def _hold_reason(self, alert: Alert, channel: AlertChannel) -> DeliveryReason:
        zone = self._context.store(alert.store_id).zone
        return hold_reason(alert, channel, self.memory.holds, (self.memory.time.at, zone))

    def _build_message(self, alert: Alert, channel: AlertChannel) -> WebhookMessage:
        now, zone = self.memory.time.at, self._context.store(alert.store_id).zone
        # Quiet hours delay a message that follows a raise; the raise itself would be held.
        due = quiet_end(channel, (now, zone)) or now
        message = releases.build_alert_message(alert, channel, self.memory, self._rules)
        return structs.replace(message, due_at=due)
