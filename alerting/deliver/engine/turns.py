"""The turns of messages: which ones are sent now, and which ones wait or end.

A decision may be outdated when the turn of its message comes: quiet hours or a silence have begun,
or the dispatcher was down and the alert is old. A message is withdrawn if the receiver certainly
has nothing of it, and its alerts are decided again: held until the hold is over, or left to a
summary. A message that may have arrived already waits until the hold is over.
"""

from msgspec import structs

from alerting.deliver.engine import releases
from alerting.deliver.state import attempts
from alerting.deliver.state.controls import SEVERITIES, AlertChannel, Redelivery, severity_rank
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


def urgency(message: WebhookMessage, memory: DeliveryMemory) -> tuple[int, bool, int]:
    """The sort key of sending, ascending: most severe first, then untried, then by order.

    Out: the negative rank of its severity; whether it was tried; its place in the order.
    """
    severities = (decision.alert.severity for decision in memory.message_decisions(message))
    rank = max(map(severity_rank, severities), default=0)
    # A heartbeat that waits behind alerts would look as if the dispatcher were down.
    if message.kind == "heartbeat":
        rank = len(SEVERITIES)
    return -rank, message.attempts > 0, message.order


def reset_for_redelivery(memory: DeliveryMemory, request: Redelivery) -> list[StoredDelivery]:
    """The message of a redelivery request, reset as if it had never been sent."""
    message = memory.messages.get(f"{request.channel_id}|{request.message_id}")
    if message is None or message.outcome == "waiting":
        return []
    # The request of a person overrides the alerts that it needs and its earlier failures.
    reset = structs.replace(
        message,
        outcome="waiting",
        due_at=memory.time.at,
        begun_at=None,
        attempts=0,
        refusals=0,
        needs=(),
        is_asked=True,
    )
    return [reset]


def end_turn(message: WebhookMessage, memory: DeliveryMemory) -> list[StoredDelivery] | None:
    """The records of a message that is not called for any more; None for any other."""
    if over := attempts.give_up_overdue(message, memory.time.at):
        return [over]
    if cause := _end_cause(message, memory):
        return [structs.replace(message, outcome="dead", cause=cause)]
    if message.kind == "repeat" and not _is_repeat_needed(message, memory):
        return [structs.replace(message, outcome="withdrawn")]
    return None


def hold_back(
    message: WebhookMessage, why: DeliveryReason, memory: DeliveryMemory
) -> list[StoredDelivery]:
    """The records of a message that may not be sent now; none if it stays until it may."""
    return _withdraw(message, why, memory) if _is_unsent(message, memory) else []


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


def _is_unsent(message: WebhookMessage, memory: DeliveryMemory) -> bool:
    """Whether the receiver certainly has none of the alerts in the message."""
    return message.kind in ("alert", "group") and not any(
        memory.may_have_arrived(message.channel, decision.alert.alert_id)
        for decision in memory.message_decisions(message)
    )


def _withdraw(
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
                decision, verdict="suppressed" if why == "late" else "held", why=reason, message=""
            )
    return [*changed.values()]


def _end_cause(message: WebhookMessage, memory: DeliveryMemory) -> str:
    """The reason why the message is never sent again; "" for none."""
    channel, now = message.channel, memory.time.at
    # An expired heartbeat would report that all is well for a time of which this is unknown.
    if message.expires_at is not None and now >= message.expires_at:
        return "its time is over"
    # This applies to messages of every kind and age.
    if memory.is_gone(channel, message.url):
        return releases.WANTS_NO_MORE
    if not all(memory.may_have_arrived(channel, alert_id) for alert_id in message.needs):
        return "what it follows was refused"
    return ""


def _is_repeat_needed(repeat: WebhookMessage, memory: DeliveryMemory) -> bool:
    """Whether the alert is still open and not acknowledged."""
    alert_id = repeat.lanes[0]
    is_open = (repeat.channel, alert_id) in memory.open
    return is_open and alert_id not in memory.acknowledged


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
    if reason := hold_reason(alert, channel, memory.holds, at):
        return reason
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
