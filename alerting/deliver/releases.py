"""Messages about single alerts: released after a hold, repeated, escalated; and their order."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import structs

from alerting.alert.current_state import episode_ids
from alerting.deliver.state.attempts import WANTS_NO_MORE
from alerting.deliver.state.controls import AlertChannel
from alerting.deliver.state.memory import DeliveryMemory
from alerting.deliver.state.records import (
    DeliveryDecision,
    DeliveryReason,
    StoredDelivery,
    WebhookMessage,
    alert_body,
    alert_message_id,
    group_body,
    hash_id,
    split_alerts,
)
from alerting.deliver.state.routing import DeliveryContext, DeliveryRules
from tally.alerts.message import Alert
from tally.time.instants import format_utc, from_millis


@dataclass(frozen=True)
class AlertMessages:
    """The messages about alerts of one partition, by its memory at the current tick."""

    memory: DeliveryMemory
    rules: DeliveryRules
    context: DeliveryContext

    def build_message(self, alert: Alert, channel: AlertChannel, due_at: int) -> WebhookMessage:
        """The message to a channel about one state of an alert.

        It goes to the address of the first message of its episode, even if the channel's URL has
        changed, because that receiver waits for the end.
        """
        message = WebhookMessage(
            channel=channel.channel_id,
            message_id=alert_message_id(alert),
            kind="alert",
            url=self._find_address(alert, channel),
            body=alert_body(alert),
            lanes=(self.rules.lane(alert),),
            needs=self.rules.needs(alert),
            order=self.memory.order + 1,
            due_at=due_at,
            promise=channel.promise,
        )
        return self._end_if_gone(message)

    def release_alerts(self) -> list[StoredDelivery]:
        """The messages and decisions of held alerts that nothing holds back any more.

        These are raises that are still open, and ends of raises that were sent, in their last
        state. Alerts that began and ended during the hold are not sent, because no action can help
        any more. A single alert is sent as itself, several as a group, whose body is never built
        again.
        """
        memory = self.memory
        free: dict[tuple[str, str], list[DeliveryDecision]] = defaultdict(list)
        # Sorted by their first decisions, because the order of a restored memory may differ.
        for channel_id, alert_id in sorted(memory.held, key=memory.sort_key):
            last = memory.decisions_for(channel_id, alert_id)[-1]
            channel = memory.channels[channel_id]
            if channel.enabled and not memory.hold_reason(last.alert, channel, self.context):
                # Grouped by address too, because an end goes to the address of its raise.
                free[channel_id, self._find_address(last.alert, channel)].append(last)
        changed: list[StoredDelivery] = []
        for (channel_id, url), decisions in sorted(free.items()):
            channel = memory.channels[channel_id]
            by_id = {decision.alert.alert_id: decision for decision in decisions}
            for alerts in split_alerts([decision.alert for decision in decisions]):
                if len(alerts) == 1:
                    message = self.build_message(alerts[0], channel, memory.time.at)
                else:
                    message = self._build_group(alerts, channel, url)
                members = [by_id[alert.alert_id] for alert in alerts]
                sent = [self._mark_sent(member, message, "released") for member in members]
                changed += memory.remember_all([message, *sent])
        return changed

    def build_reminders(self) -> list[StoredDelivery]:
        """The messages and decisions of the repeats and escalations that are due now.

        They remind of open alerts without an acknowledgement. Those that a silence, a snooze or
        quiet hours hold back wait until the hold is over.
        """
        memory = self.memory
        reminding = {
            channel.channel_id
            for channel in memory.channels.values()
            if channel.enabled and (channel.repeat_after or channel.escalate)
        }
        # Without such a channel the open alerts are not sorted and checked.
        due = (at for at in memory.open if at[0] in reminding)
        changed: list[StoredDelivery] = []
        for channel_id, alert_id in sorted(due, key=memory.sort_key):
            if alert_id in memory.acknowledged:
                continue
            channel = memory.channels[channel_id]
            decisions = memory.decisions_for(channel_id, alert_id)
            last = decisions[-1]
            sent = [decision.at for decision in decisions if decision.verdict == "send"]
            is_due = self._is_due(channel.repeat_after, max(*sent, last.repeated_at))
            if is_due and not memory.hold_reason(last.alert, channel, self.context):
                changed += self._repeat(channel, last)
            escalation = channel.escalate
            if escalation is not None and self._is_due(escalation.after, min(sent)):
                changed += self._escalate(memory.channels.get(escalation.channel), last)
        return changed

    def _is_due(self, seconds: int, since: int) -> bool:
        return bool(seconds) and self.memory.time.at >= since + seconds * 1_000

    def _repeat(self, channel: AlertChannel, last: DeliveryDecision) -> list[StoredDelivery]:
        now, alert = self.memory.time.at, last.alert
        repeat = structs.replace(
            self.build_message(alert, channel, now),
            kind="repeat",
            # A new key, because a receiver that acts once per id must act again.
            message_id=f"{alert_message_id(alert)}_{now // 1_000}",
            body=alert_body(alert, repeated_at=format_utc(from_millis(now))),
            needs=(alert.alert_id,),
        )
        return self.memory.remember_all([repeat, structs.replace(last, repeated_at=now)])

    def _escalate(
        self, second: AlertChannel | None, last: DeliveryDecision
    ) -> list[StoredDelivery]:
        """The message to a second channel that has not the alert yet, and its decision."""
        memory, alert = self.memory, last.alert
        if second is None or not second.enabled:
            return []
        is_known = memory.decisions_for(second.channel_id, alert.alert_id)
        if is_known or memory.hold_reason(alert, second, self.context):
            return []
        message = self.build_message(alert, second, memory.time.at)
        # It has not been repeated on the second channel.
        decision = self._mark_sent(structs.replace(last, repeated_at=0), message, "escalated")
        return memory.remember_all([message, decision])

    def _build_group(
        self, alerts: Sequence[Alert], channel: AlertChannel, url: str
    ) -> WebhookMessage:
        message = WebhookMessage(
            channel=channel.channel_id,
            message_id=hash_id("grp", *(f"{alert.alert_id}|{alert.state}" for alert in alerts)),
            kind="group",
            url=url,
            body=group_body(alerts),
            # Any later message of a member's lane waits for the whole group.
            lanes=tuple(dict.fromkeys(map(self.rules.lane, alerts))),
            order=self.memory.order + 1,
            due_at=self.memory.time.at,
            promise=channel.promise,
        )
        return self._end_if_gone(message)

    def _mark_sent(
        self, decision: DeliveryDecision, message: WebhookMessage, why: DeliveryReason
    ) -> DeliveryDecision:
        """The decision to send an alert now in a message to the message's channel."""
        now = self.memory.time
        carried = structs.replace(decision, channel=message.channel, message=message.message_id)
        decided = structs.replace(carried, at=now.at, tick=now.n)
        return structs.replace(decided, verdict="send", why=why)

    def _end_if_gone(self, message: WebhookMessage) -> WebhookMessage:
        # It is stored all the same: people see it, and can request it again at a new address.
        if self.memory.is_gone(message.channel, message.url):
            return structs.replace(message, outcome="dead", cause=WANTS_NO_MORE)
        return message

    def _find_address(self, alert: Alert, channel: AlertChannel) -> str:
        for alert_id in episode_ids(alert):
            if first := next(self.memory.messages_about(channel.channel_id, alert_id), None):
                return first.url
        return channel.url
