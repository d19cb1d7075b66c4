"""Heartbeats of channels, whose absence shows that alerts may be missing too."""

from alerting.deliver.state.body import encode_body, hash_id
from alerting.deliver.state.controls import AlertChannel
from alerting.deliver.state.memory import MINUTE, DeliveryMemory
from alerting.deliver.state.records import StoredDelivery, WebhookMessage
from tally.time.instants import format_utc, from_millis

HEARTBEAT_MILLIS = 5 * MINUTE


def build_heartbeats(memory: DeliveryMemory, partition: int) -> list[StoredDelivery]:
    """A message to each channel with heartbeats enabled, five minutes after the previous one.

    If it does not arrive, alerts of this partition's stores may not arrive either. It replaces the
    previous heartbeat, whether that was sent or not.
    """
    now = memory.time.at
    slot = now // HEARTBEAT_MILLIS
    return [
        WebhookMessage(
            channel=channel.channel_id,
            message_id=hash_id("beat", channel.channel_id, str(partition), str(slot)),
            kind="heartbeat",
            url=channel.url,
            body=encode_body("heartbeat", format_utc(from_millis(now)), {"partition": partition}),
            lanes=("heartbeat",),
            order=memory.order,
            due_at=now,
            expires_at=(slot + 1) * HEARTBEAT_MILLIS,
        )
        for channel in memory.channels.values()
        if channel.heartbeat
        and channel.enabled
        and not memory.is_gone(channel.channel_id, channel.url)
        and _last_slot(channel, memory) < slot
    ]


def _last_slot(channel: AlertChannel, memory: DeliveryMemory) -> int:
    last = memory.messages.get(f"{channel.channel_id}|heartbeat")
    if last is None or last.expires_at is None:
        return -1
    return last.expires_at // HEARTBEAT_MILLIS - 1
