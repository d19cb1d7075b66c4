"""Whether a message may be called for at this moment: looked at before every attempt.

What was right when a message was made may be wrong when its turn comes: quiet hours or a silence
have begun, or the dispatcher was down and the alert is old. A message of which the receiver has
certainly nothing is withdrawn, and its alerts are decided anew: held until the hold is over, or
left to a summary. One that may have arrived already waits until the hold is over.
"""

from msgspec import structs

from tally.alerts.delivery.controls import AlertChannel
from tally.alerts.delivery.deciding import Surroundings, holding, is_old, quiet_end
from tally.alerts.delivery.memory import DeliveryMemory
from tally.alerts.delivery.records import (
    DeliveryDecision,
    DeliveryReason,
    KeptDelivery,
    WebhookMessage,
)

# A hold, a summary or an escalation has made these young again.
_AGED_ANEW: tuple[DeliveryReason, ...] = ("released", "escalated")


def obstacle(
    message: WebhookMessage, memory: DeliveryMemory, around: Surroundings
) -> DeliveryReason:
    """What keeps a message from being called for now; "" for nothing.

    A summary is kept back by what holds for all of its alerts, any other message by what holds for
    one of them. Whoever has asked for a message gets it.
    """
    channel = memory.channels.get(message.channel)
    # Of a channel that nobody has set up nothing is known that could keep it back: it is refused.
    if message.is_asked or channel is None:
        return ""
    reasons = [_reason(one, channel, memory, around) for one in memory.carried_by(message)]
    if message.kind == "summary":
        # Its alerts are old, or too many: that is why there is a summary.
        holds = [reason if reason != "late" else "" for reason in reasons]
        return holds[0] if holds and all(holds) else ""
    return next((reason for reason in reasons if reason), "")


def is_unsent(message: WebhookMessage, memory: DeliveryMemory) -> bool:
    """Whether the receiver has certainly nothing of any alert that the message tells of."""
    return message.kind in ("alert", "group") and not any(
        memory.may_have_arrived(message.channel, decision.alert.alert_id)
        for decision in memory.carried_by(message)
    )


def withdrawn(
    message: WebhookMessage, why: DeliveryReason, memory: DeliveryMemory
) -> list[KeptDelivery]:
    """The records by which a message, and whatever follows it, goes back to being decided.

    Its alerts are held, or suppressed where they are "late"; the next tick looks at those that
    nothing holds.
    """
    channel = message.channel
    alerts = dict.fromkeys(one.alert.alert_id for one in memory.carried_by(message))
    ends = [end for alert_id in alerts for end in memory.ends_of(channel, alert_id)]
    kept: dict[str, KeptDelivery] = {}
    for alert_id in dict.fromkeys((*alerts, *ends)):
        for number, decision in enumerate(memory.told(channel, alert_id)):
            sent = memory.waiting.get(f"{channel}|{decision.message}")
            if sent is not None:
                kept[sent.key] = structs.replace(sent, outcome="withdrawn", cause=why)
            reason: DeliveryReason = "followed" if number else why
            if alert_id in ends:
                reason = "raise not sent"
            kept[decision.key] = structs.replace(
                decision,
                verdict="suppressed" if why == "late" else "held",
                why=reason,
                message="",
            )
    return [*kept.values()]


def _reason(
    decision: DeliveryDecision,
    channel: AlertChannel,
    memory: DeliveryMemory,
    around: Surroundings,
) -> DeliveryReason:
    alert, now = decision.alert, memory.time.at
    at = now, around.store(alert.store_id).zone
    # A retraction passes silences: whoever may have the raise is not left with a false alert.
    if alert.state == "retracted":
        return "quiet" if quiet_end(channel, at) is not None else ""
    if held := holding(alert, channel, memory.holds, at):
        return held
    return "late" if _is_late_news(decision, channel, memory) else ""


def _is_late_news(
    decision: DeliveryDecision, channel: AlertChannel, memory: DeliveryMemory
) -> bool:
    """Whether the channel would hear for the first time of an alert that is too old for it."""
    alert = decision.alert
    if alert.edge != "raise" or memory.may_have_arrived(channel.channel_id, alert.alert_id):
        return False
    told = memory.told(channel.channel_id, alert.alert_id)
    anew = [one.at for one in told if one.why in _AGED_ANEW]
    if anew:
        return max(anew) < memory.time.at - channel.max_age * 1_000
    return is_old(alert, channel, memory.time.at)
