"""Reminders of open alerts without an acknowledgement: repeats, and escalations."""

from msgspec import structs

from alerting.deliver.engine.releases import build_alert_message, is_free
from alerting.deliver.state.body import alert_message_id, repeat_body
from alerting.deliver.state.controls import AlertChannel
from alerting.deliver.state.memory import DeliveryMemory
from alerting.deliver.state.records import DeliveryDecision, StoredDelivery
from alerting.deliver.state.routing import DeliveryContext, DeliveryRules
from tally.time.instants import format_utc, from_millis

_MILLIS = 1_000


def build_reminders(
    memory: DeliveryMemory, rules: DeliveryRules, around: DeliveryContext
) -> list[StoredDelivery]:
    """The messages and decisions of the repeats and escalations that are due now.

    Those that a silence, a snooze or quiet hours hold back wait until the hold is over.
    """
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
        channel, decisions = memory.channels[channel_id], memory.decisions_for(channel_id, alert_id)
        last = decisions[-1]
        sent = [decision.at for decision in decisions if decision.verdict == "send"]
        since = max(max(sent), last.repeated_at)
        if _is_due(channel.repeat_after, since, memory) and is_free(last, channel, memory, around):
            changed += _build_repeat(memory, rules, channel, last)
        changed += _build_escalation(memory, rules, around, (channel, last, min(sent)))
    return changed


def _is_due(seconds: int, since: int, memory: DeliveryMemory) -> bool:
    return bool(seconds) and memory.time.at >= since + seconds * _MILLIS


def _build_repeat(
    memory: DeliveryMemory, rules: DeliveryRules, channel: AlertChannel, last: DeliveryDecision
) -> list[StoredDelivery]:
    now, alert = memory.time.at, last.alert
    message = build_alert_message(alert, channel, memory, rules)
    repeat = structs.replace(
        message,
        kind="repeat",
        # A new key, because a receiver that acts once per id must act again.
        message_id=f"{alert_message_id(alert)}_{now // _MILLIS}",
        body=repeat_body(alert, format_utc(from_millis(now))),
        needs=(alert.alert_id,),
        due_at=now,
    )
    return memory.remember_all([repeat, structs.replace(last, repeated_at=now)])


def _build_escalation(
    memory: DeliveryMemory,
    rules: DeliveryRules,
    around: DeliveryContext,
    reminder: tuple[AlertChannel, DeliveryDecision, int],
) -> list[StoredDelivery]:
    channel, last, since = reminder
    escalation, alert = channel.escalate, last.alert
    if escalation is None or not _is_due(escalation.after, since, memory):
        return []
    second = memory.channels.get(escalation.channel)
    if (
        second is None
        or not second.enabled
        or memory.decisions_for(second.channel_id, alert.alert_id)
    ):
        return []
    if not is_free(last, second, memory, around):
        return []
    message = structs.replace(
        build_alert_message(alert, second, memory, rules), due_at=memory.time.at
    )
    decision = DeliveryDecision(
        channel=second.channel_id,
        alert=alert,
        verdict="send",
        why="escalated",
        message=message.message_id,
        at=memory.time.at,
        tick=memory.time.n,
    )
    return memory.remember_all([message, decision])
