"""The release of alerts after a hold, and the order of messages."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import structs

from alerting.deliver.state.body import (
    alert_body,
    alert_message_id,
    group_body,
    hash_id,
    split_alerts,
)
from alerting.deliver.state.controls import AlertChannel
from alerting.deliver.state.memory import DeliveryMemory
from alerting.deliver.state.records import DeliveryDecision, StoredDelivery, WebhookMessage
from alerting.deliver.state.routing import DeliveryContext, DeliveryRules, hold_reason
from tally.alerts.message import Alert

WANTS_NO_MORE = "the receiver wants no more"


def build_alert_message(
    alert: Alert, channel: AlertChannel, memory: DeliveryMemory, rules: DeliveryRules
) -> WebhookMessage:
    """The message to a channel about one state of an alert, due at once.

    It goes to the address of the first message of its episode, even if the channel's URL has
    changed, because that receiver waits for the end.
    """
    url = _find_address(alert, channel, memory)
    return _number_message(
        channel,
        memory,
        WebhookMessage(
            channel=channel.channel_id,
            message_id=alert_message_id(alert),
            kind="alert",
            url=url,
            body=alert_body(alert),
            lanes=(rules.lane(alert),),
            needs=rules.needs(alert),
            order=0,
            due_at=0,
        ),
    )


def release_alerts(
    memory: DeliveryMemory, rules: DeliveryRules, around: DeliveryContext
) -> list[StoredDelivery]:
    """The messages and decisions of held alerts that nothing holds back any more.

    These are raises that are still open, and ends of raises that were sent, in their last state.
    Alerts that began and ended during the hold are not sent, because no action can help any more.
    A single alert is sent as itself, several as a group, whose body is never built again.
    """
    free: dict[tuple[str, str], list[DeliveryDecision]] = defaultdict(list)
    # Sorted by their first decisions, because the order of a restored memory may differ.
    for channel_id, alert_id in sorted(memory.held, key=memory.sort_key):
        last = memory.decisions_for(channel_id, alert_id)[-1]
        channel = memory.channels[channel_id]
        if channel.enabled and is_free(last, channel, memory, around):
            # Grouped by address too, because an end goes to the address of its raise.
            free[channel_id, _find_address(last.alert, channel, memory)].append(last)
    changed: list[StoredDelivery] = []
    for (channel_id, url), decisions in sorted(free.items()):
        channel = memory.channels[channel_id]
        for records in _build_parts(channel, url, decisions, (memory, rules)):
            changed += memory.remember_all(records)
    return changed


def is_free(
    last: DeliveryDecision, channel: AlertChannel, memory: DeliveryMemory, around: DeliveryContext
) -> bool:
    """Whether nothing holds the alert of a decision back on the channel now."""
    at = memory.time.at, around.store(last.alert.store_id).zone
    return not hold_reason(last.alert, channel, memory.holds, at)


def _build_parts(
    channel: AlertChannel,
    url: str,
    decisions: Sequence[DeliveryDecision],
    with_what: tuple[DeliveryMemory, DeliveryRules],
) -> Iterable[list[StoredDelivery]]:
    memory, rules = with_what
    by_id = {decision.alert.alert_id: decision for decision in decisions}
    for alerts in split_alerts([decision.alert for decision in decisions]):
        members = [by_id[alert.alert_id] for alert in alerts]
        if len(members) == 1:
            message = build_alert_message(alerts[0], channel, memory, rules)
            message = structs.replace(message, due_at=memory.time.at)
        else:
            message = _build_group(channel, url, alerts, with_what)
        sent = [
            structs.replace(
                member,
                verdict="send",
                why="released",
                message=message.message_id,
                at=memory.time.at,
                tick=memory.time.n,
            )
            for member in members
        ]
        yield [message, *sent]


def _build_group(
    channel: AlertChannel,
    url: str,
    alerts: Sequence[Alert],
    with_what: tuple[DeliveryMemory, DeliveryRules],
) -> WebhookMessage:
    memory, rules = with_what
    states = [f"{alert.alert_id}|{alert.state}" for alert in alerts]
    return _number_message(
        channel,
        memory,
        WebhookMessage(
            channel=channel.channel_id,
            message_id=hash_id("grp", *states),
            kind="group",
            url=url,
            body=group_body(alerts),
            # Any later message of a member's lane waits for the whole group.
            lanes=tuple(dict.fromkeys(rules.lane(alert) for alert in alerts)),
            order=0,
            due_at=memory.time.at,
        ),
    )


def _number_message(
    channel: AlertChannel, memory: DeliveryMemory, message: WebhookMessage
) -> WebhookMessage:
    numbered = structs.replace(message, order=memory.order + 1, promise=channel.promise)
    # It is stored all the same, so that people see it and can request it again at a new address.
    if memory.is_gone(channel.channel_id, message.url):
        return structs.replace(numbered, outcome="dead", cause=WANTS_NO_MORE)
    return numbered


def _find_address(alert: Alert, channel: AlertChannel, memory: DeliveryMemory) -> str:
    for alert_id in (alert.alert_id, alert.of):
        messages = memory.messages_about(channel.channel_id, alert_id) if alert_id else iter(())
        if first := next(messages, None):
            return first.url
    return channel.url
