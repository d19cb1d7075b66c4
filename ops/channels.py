"""Channels of alerts: what is settled of them, and what became of their messages."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from runtime.alert_controls import TOPIC, write_controls
from runtime.reading import read_to_end
from tally.alerts.delivery.controls import (
    Acknowledgement,
    AlertChannel,
    Redelivery,
    Silence,
    Snooze,
    parsed_control,
)
from tally.alerts.delivery.records import DeliveryDecision, WebhookMessage, parsed_kept
from tally.alerts.standing import rank_of
from tally.errors import TallyError
from tally.settings import Settings

DELIVERIES = "alert-deliveries"
_MILLIS = 1_000


class ToldState(NamedTuple):
    """What was decided about one state of an alert on a channel, and the message, if there is one.

    Of a region that is told of as one the message may be another partition's.
    """

    decision: DeliveryDecision
    message: WebhookMessage | None


def channels(settings: Settings) -> dict[str, AlertChannel]:
    """The channels by id, as they were set last."""
    found = (parsed_control(value) for value in _newest(settings, TOPIC))
    named = {one.channel_id: one for one in found if isinstance(one, AlertChannel)}
    return dict(sorted(named.items()))


def set_channel(settings: Settings, content: bytes) -> AlertChannel:
    """The channel that a JSON object describes, once it is settled everywhere.

    Raises TallyError for one that does not fit, NotSent when an unknown part was not stored.
    """
    try:
        told = msgspec.json.decode(content, type=dict[str, object])
        channel = parsed_control(msgspec.json.encode({**told, "is": "channel"}))
    except msgspec.DecodeError as error:
        raise TallyError(f"channel: {error}; docs/alerts-webhooks.md has one") from error
    assert isinstance(channel, AlertChannel)
    # Read back by nobody: each dispatcher takes it at its own position.
    write_controls(settings, [channel])
    return channel


def settle(settings: Settings, settled: Silence | Snooze | Acknowledgement) -> None:
    """Keep alerts back, or end that, or note who has taken one on: the later one of a key holds.

    Raises NotSent when an unknown part was not stored.
    """
    write_controls(settings, [settled])


def silences(settings: Settings) -> list[Silence]:
    """All that were ever set, as they were set last, by their beginning."""
    found = (parsed_control(value) for value in _newest(settings, TOPIC))
    # In each partition there is one.
    named = {one.silence_id: one for one in found if isinstance(one, Silence)}
    return sorted(named.values(), key=lambda one: (one.starts, one.silence_id))


def handled(settings: Settings, alert_id: str) -> list[Snooze | Acknowledgement]:
    """Who has put the alert off, or taken it on."""
    found = (parsed_control(value) for value in _newest(settings, TOPIC))
    noted = (one for one in found if isinstance(one, Snooze | Acknowledgement))
    ours = [one for one in noted if one.alert_id == alert_id]
    return sorted(ours, key=lambda one: one.key)


def told_of(settings: Settings, alert_id: str) -> list[ToldState]:
    """What was decided about the alert, by channel, in the order of its states."""
    kept = [parsed_kept(value) for value in _newest(settings, DELIVERIES)]
    messages = {one.key: one for one in kept if isinstance(one, WebhookMessage)}
    decided = [one for one in kept if isinstance(one, DeliveryDecision)]
    told = [
        ToldState(one, messages.get(f"{one.channel}|{one.message}"))
        for one in decided
        if one.alert.alert_id == alert_id
    ]
    by_state = sorted(told, key=lambda one: rank_of(one.decision.alert))
    return sorted(by_state, key=lambda one: one.decision.channel)


def deliveries(settings: Settings, channel_id: str) -> list[WebhookMessage]:
    """The channel's messages, those that are due last at the end."""
    kept = (parsed_kept(value) for value in _newest(settings, DELIVERIES))
    messages = [one for one in kept if isinstance(one, WebhookMessage)]
    own = [one for one in messages if one.channel == channel_id]
    return sorted(own, key=lambda one: (one.due_at, one.order))


def redeliver(settings: Settings, channel_id: str, message_id: str) -> WebhookMessage:
    """The message as it was, once its dispatcher is told to call for it again.

    Raises TallyError when there is none, or it waits already; NotSent as `settle`.
    """
    found = [one for one in deliveries(settings, channel_id) if one.message_id == message_id]
    if not found:
        raise TallyError(
            f"channel {channel_id}: no message {message_id};"
            f" `tally channels deliveries {channel_id}` shows those there are"
        )
    if found[0].outcome == "waiting":
        raise TallyError(f"{message_id} waits for its next attempt already; nothing is to be done")
    now = int(datetime.now(UTC).timestamp() * _MILLIS)
    asked = Redelivery(channel_id=channel_id, message_id=message_id, asked_at=now)
    write_controls(settings, [asked])
    return found[0]


def redeliver_dead(settings: Settings, channel_id: str = "") -> list[WebhookMessage]:
    """The messages that were given up, on one channel or all, once they are asked for again.

    Heartbeats, and what nobody knows the outcome of, are left as they are. Raises NotSent as
    `settle`.
    """
    kept = (parsed_kept(value) for value in _newest(settings, DELIVERIES))
    dead = [
        message
        for message in kept
        if isinstance(message, WebhookMessage)
        and message.outcome == "dead"
        and message.kind != "heartbeat"
        and channel_id in ("", message.channel)
    ]
    now = int(datetime.now(UTC).timestamp() * _MILLIS)
    # One read and one write for all of them, in the order in which they were made.
    ordered = sorted(dead, key=lambda message: (message.channel, message.order))
    write_controls(
        settings,
        [
            Redelivery(channel_id=message.channel, message_id=message.message_id, asked_at=now)
            for message in ordered
        ],
    )
    return ordered


def _newest(settings: Settings, topic: str) -> Iterator[bytes]:
    """The last value of each key in each partition."""
    found: dict[tuple[int, bytes], bytes | None] = {}
    for message in read_to_end(settings, [topic]):
        place = message.partition() or 0, _bytes(message.key())
        found[place] = _bytes(message.value()) if message.value() is not None else None
    return (value for value in found.values() if value is not None)


def _bytes(content: str | bytes | None) -> bytes:
    return content.encode() if isinstance(content, str) else content or b""
