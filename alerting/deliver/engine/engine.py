"""The alerts of a partition on their way to channels: decisions, messages and their outcomes."""

from collections.abc import Callable, Collection, Sequence

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
from alerting.deliver.state import attempts
from alerting.deliver.state.call_limits import CallCapacity, CircuitBreakers
from alerting.deliver.state.controls import AlertChannel, AlertControl, Redelivery
from alerting.deliver.state.memory import MINUTE, DeliveryMemory
from alerting.deliver.state.records import (
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
from runtime.outbound.caller import OutboundAnswer
from runtime.outbound.engine import OutboundEngine
from runtime.outbound.records import DroppedRecord, TickTime
from tally.alerts.message import Alert

_LEFT_OUT: DeliveryReason = "left out"


class DeliveryEngine(
    OutboundEngine[DeliveryMemory, WebhookMessage, StoredDelivery, WebhookMessage, OutboundAnswer]
):
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
        super().__init__(DeliveryMemory())
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
        decided_channels = [
            channel for alert_id in episode for channel in self.memory.channels_for(alert_id)
        ]
        matching_channels = [
            target.channel_id
            for target in self.memory.channels.values()
            if matches_channel(alert, target, named)
        ]
        # The order is fixed, so that two runs write the same records after any restore.
        for channel in sorted({*decided_channels, *matching_channels}):
            changed += self._decide_on_channel(channel, alert)
        return changed

    # Held alerts are not checked here; the next tick releases them or keeps them.
    def apply_control(self, control: AlertControl) -> list[StoredDelivery]:
        """The records that a control changes."""
        if isinstance(control, Redelivery):
            return self.memory.remember_all(turns.reset_for_redelivery(self.memory, control))
        return self.memory.remember_all([control])

    def apply_control_early(self, control: AlertControl) -> None:
        """Applies a control ahead of its turn, unless it is known already or a redelivery."""
        known = isinstance(control, AlertChannel) and (
            self.memory.channels.get(control.channel_id) == control
        )
        # A re-created channel may have a new URL; without this the old 410 would still apply.
        if not known and not isinstance(control, Redelivery):
            self.memory.remember(control)

    def _pass_time(self, before: int) -> list[StoredDelivery]:
        memory, context = self.memory, self._context
        changed = releases.release_alerts(memory, self._rules, context)
        changed += summaries.build_summaries(memory, self._partition, context)
        changed += memory.remember_all(digest.build_digests(memory, context, before))
        changed += memory.remember_all(heartbeats.build_heartbeats(memory, self._partition))
        if memory.time.at // MINUTE != before // MINUTE:
            changed += reminders.build_reminders(memory, self._rules, context)
        return changed

    def _drop_outdated(self) -> list[DroppedRecord]:
        outdated = retention.find_outdated(self.memory)
        for record in outdated:
            self.memory.forget(record)
        return [DroppedRecord(record_key(record)) for record in outdated]

    def _own_room(self, under_way: Collection[WebhookMessage]) -> Callable[[WebhookMessage], bool]:
        return CallCapacity((message.url for message in under_way), CircuitBreakers()).reserve

    def _urgency(self, message: WebhookMessage) -> tuple[int, bool, int]:
        return turns.urgency(message, self.memory)

    def _end_turn(self, message: WebhookMessage) -> list[StoredDelivery] | None:
        ended = turns.end_turn(message, self.memory)
        if ended is None and (why := self._obstacle(message)):
            return turns.hold_back(message, why, self.memory)
        return ended

    def _obstacle(self, message: WebhookMessage) -> DeliveryReason:
        """The reason why the message may not be sent now; "" for none."""
        return turns.message_hold_reason(message, self.memory, self._context)

    def _begin_attempt(self, message: WebhookMessage) -> WebhookMessage:
        return attempts.begin_attempt(message, self.memory.time.at)

    def _get_message(self, call: WebhookMessage) -> WebhookMessage:
        return call

    def _find_open(self, called: WebhookMessage) -> WebhookMessage | None:
        known = self.memory.messages.get(called.key)
        if known is None or known.message_id != called.message_id:
            return None
        # A late answer does not revive a message that was given up with its address meanwhile.
        return known if known.outcome in ("waiting", "unknown") else None

    def _apply_answer(self, call: WebhookMessage, answer: OutboundAnswer) -> list[StoredDelivery]:
        now = self.memory.time.at
        after = attempts.apply_answer(self.memory.messages[call.key], answer, now)
        if attempts.classify_webhook_answer(answer) != "gone":
            return [after]
        gone = GoneAddress(channel=after.channel, url=after.url, at=now)
        # The message itself is one of the waiting ones, and its own record is written last.
        others = [
            structs.replace(message, outcome="dead", cause=after.cause)
            for message in self.memory.waiting.values()
            if (message.channel, message.url) == (after.channel, after.url)
        ]
        return [gone, *others, after]

    def _initial_time(self, alert: Alert) -> list[StoredDelivery]:
        # Before the very first tick, the alert has the only known instant.
        if self.memory.time.at:
            return []
        return self.memory.remember_all([TickTime(n=0, at=instant_millis(alert.raised_at))])

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
        return self.memory.remember_all([message, decision] if message else [decision])

    def _decide(
        self, alert: Alert, channel: AlertChannel, earlier: Sequence[DeliveryDecision]
    ) -> tuple[DeliveryVerdict, DeliveryReason]:
        reason = self._hold_reason(alert, channel)
        if not earlier:
            return self._rules.decide_first(self._first_state(alert, channel, reason))
        verdict = self._rules.decide_later(earlier, reason)
        has_gone_out = any(self.memory.messages_about(channel.channel_id, alert.alert_id))
        is_left_out = verdict == "send" and alert.state in channel.leaves_out and has_gone_out
        return verdict, _LEFT_OUT if is_left_out else "followed"

    def _first_state(
        self, alert: Alert, channel: AlertChannel, reason: DeliveryReason
    ) -> FirstState:
        now = self.memory.time.at
        # The rate limit holds for a channel over all partitions of this process.
        return FirstState(
            alert=alert,
            channel=channel,
            now=now,
            hold_reason=reason,
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
