"""The check before every attempt whether a message may be sent now.

A decision may be outdated when the turn of its message comes: quiet hours or a silence have begun,
or the dispatcher was down and the alert is old. A message is withdrawn if the receiver certainly
has nothing of it, and its alerts are decided again: held until the hold is over, or left to a
summary. A message that may have arrived already waits until the hold is over.
"""

from msgspec import structs

from alerting.deliver.state.controls import AlertChannel
from alerting.deliver.state.memory import DeliveryMemory
from alerting.deliver.state.records import (
    DeliveryDecision,
    DeliveryReason,
    StoredDelivery,
    WebhookMessage,
)
from alerting.deliver.state.routing import DeliveryContext, hold_reason, is_old, quiet_end

# The age of an alert counts again from a decision with one of these reasons.
_AGE_RESETS: tuple[DeliveryReason, ...] = ("released", "escalated")


def message_hold_reason(
    message: WebhookMessage, memory: DeliveryMemory, around: DeliveryContext
) -> DeliveryReason:
    """The reason why a message may not be sent now; "" for none.

    A summary is held back by a reason that applies to all its alerts, any other message by one that
    applies to any of them. A requested redelivery is never held back.
    """
    channel = memory.channels.get(message.channel)
    # An unknown channel has no settings that could hold a message back; the call is refused later.
    if message.is_asked or channel is None:
        return ""
    reasons = [
        _decision_hold_reason(decision, channel, memory, around)
        for decision in memory.message_decisions(message)
    ]
    if message.kind == "summary":
        # Old alerts do not hold a summary back, because they are a reason for its existence.
        holds = [reason if reason != "late" else "" for reason in reasons]
        return holds[0] if holds and all(holds) else ""
    return next((reason for reason in reasons if reason), "")


def is_unsent(message: WebhookMessage, memory: DeliveryMemory) -> bool:
    """Whether the receiver certainly has none of the alerts in the message."""
    return message.kind in ("alert", "group") and not any(
        memory.may_have_arrived(message.channel, decision.alert.alert_id)
        for decision in memory.message_decisions(message)
    )


def withdraw_message(
    message: WebhookMessage, why: DeliveryReason, memory: DeliveryMemory
) -> list[StoredDelivery]:
    """The records that withdraw a message and the messages that follow it.

    Their alerts are held, or suppressed if they are "late"; the next tick releases those that
    nothing holds back.
    """
    channel = message.channel
    alerts = dict.fromkeys(carried.alert.alert_id for carried in memory.message_decisions(message))
    ends = [end for alert_id in alerts for end in memory.ends_for(channel, alert_id)]
    changed: dict[str, StoredDelivery] = {}
    for alert_id in dict.fromkeys((*alerts, *ends)):
        for number, decision in enumerate(memory.decisions_for(channel, alert_id)):
            sent = memory.waiting.get(f"{channel}|{decision.message}")
            if sent is not None:
                changed[sent.key] = structs.replace(sent, outcome="withdrawn", cause=why)
            reason: DeliveryReason = "followed" if number else why
            if alert_id in ends:
                reason = "raise not sent"
            changed[decision.key] = structs.replace(
                decision,
                verdict="suppressed" if why == "late" else "held",
                why=reason,
                message="",
            )
    return [*changed.values()]


def _decision_hold_reason(
    decision: DeliveryDecision,
    channel: AlertChannel,
    memory: DeliveryMemory,
    around: DeliveryContext,
) -> DeliveryReason:
    alert, now = decision.alert, memory.time.at
    at = now, around.store(alert.store_id).zone
    # A retraction passes silences, so that no receiver of the raise keeps a false alert.
    if alert.state == "retracted":
        return "quiet" if quiet_end(channel, at) is not None else ""
    if held := hold_reason(alert, channel, memory.holds, at):
        return held
    return "late" if _is_too_old(decision, channel, memory) else ""


def _is_too_old(decision: DeliveryDecision, channel: AlertChannel, memory: DeliveryMemory) -> bool:
    """Whether the message would be the channel's first one about an alert beyond its max_age."""
    alert = decision.alert
    if alert.edge != "raise" or memory.may_have_arrived(channel.channel_id, alert.alert_id):
        return False
    decisions = memory.decisions_for(channel.channel_id, alert.alert_id)
    resets = [earlier.at for earlier in decisions if earlier.why in _AGE_RESETS]
    if resets:
        return max(resets) < memory.time.at - channel.max_age * 1_000
    return is_old(alert, channel, memory.time.at)
