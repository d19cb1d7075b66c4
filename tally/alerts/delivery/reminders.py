"""Alerts that stay open while nobody takes them on: sent again, and told to a second channel."""

from msgspec import structs

from tally.alerts.delivery.body import alert_message_id, repeat_body
from tally.alerts.delivery.controls import AlertChannel
from tally.alerts.delivery.deciding import DeliveryRules, Surroundings, holding
from tally.alerts.delivery.memory import DeliveryMemory
from tally.alerts.delivery.records import DeliveryDecision, KeptDelivery
from tally.alerts.delivery.releases import alert_message
from tally.instants import from_millis, instant_text

_MILLIS = 1_000


def reminders(
    memory: DeliveryMemory, rules: DeliveryRules, around: Surroundings
) -> list[KeptDelivery]:
    """Messages and decisions of the repeats and escalations that are due now.

    What a silence, a snooze or quiet hours hold back waits until they are over.
    """
    reminding = {
        channel.channel_id
        for channel in memory.channels.values()
        if channel.enabled and (channel.repeat_after or channel.escalate)
    }
    # Without such a channel nothing is gone through.
    due = (at for at in memory.open if at[0] in reminding)
    kept: list[KeptDelivery] = []
    for channel_id, alert_id in sorted(due, key=memory.taken):
        if alert_id in memory.acknowledged:
            continue
        channel, told = memory.channels[channel_id], memory.told(channel_id, alert_id)
        last = told[-1]
        sent = [one.at for one in told if one.verdict == "send"]
        since = max(max(sent), last.repeated_at)
        if _is_due(channel.repeat_after, since, memory) and _is_free(channel, last, memory, around):
            kept += _repeat(memory, rules, channel, last)
        kept += _escalation(memory, rules, around, (channel, last, min(sent)))
    return kept


def _is_due(seconds: int, since: int, memory: DeliveryMemory) -> bool:
    return bool(seconds) and memory.time.at >= since + seconds * _MILLIS


def _is_free(
    channel: AlertChannel, last: DeliveryDecision, memory: DeliveryMemory, around: Surroundings
) -> bool:
    at = memory.time.at, around.store(last.alert.store_id).zone
    return not holding(last.alert, channel, memory.holds, at)


def _repeat(
    memory: DeliveryMemory, rules: DeliveryRules, channel: AlertChannel, last: DeliveryDecision
) -> list[KeptDelivery]:
    now, alert = memory.time.at, last.alert
    made = alert_message(alert, channel, memory, rules)
    repeat = structs.replace(
        made,
        kind="repeat",
        # Another key: whoever acts once for an id is to act again.
        message_id=f"{alert_message_id(alert)}_{now // _MILLIS}",
        body=repeat_body(alert, instant_text(from_millis(now))),
        needs=(alert.alert_id,),
        due_at=now,
    )
    return _remembered(memory, [repeat, structs.replace(last, repeated_at=now)])


def _escalation(
    memory: DeliveryMemory,
    rules: DeliveryRules,
    around: Surroundings,
    of: tuple[AlertChannel, DeliveryDecision, int],
) -> list[KeptDelivery]:
    channel, last, since = of
    asked, alert = channel.escalate, last.alert
    if asked is None or not _is_due(asked.after, since, memory):
        return []
    second = memory.channels.get(asked.channel)
    if second is None or not second.enabled or memory.told(second.channel_id, alert.alert_id):
        return []
    if not _is_free(second, last, memory, around):
        return []
    message = structs.replace(alert_message(alert, second, memory, rules), due_at=memory.time.at)
    decision = DeliveryDecision(
        channel=second.channel_id,
        alert=alert,
        verdict="send",
        why="escalated",
        message=message.message_id,
        at=memory.time.at,
        tick=memory.time.n,
    )
    return _remembered(memory, [message, decision])


def _remembered(memory: DeliveryMemory, kept: list[KeptDelivery]) -> list[KeptDelivery]:
    """The records, remembered at once: the order of the next message is behind theirs."""
    for record in kept:
        memory.remember(record)
    return kept
