"""Alert channels: their settings, and the delivery state of their messages."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

import msgspec

from alerting.alert.current_state import state_rank
from alerting.deliver.state.controls import (
    TOPIC,
    Acknowledgement,
    AlertChannel,
    Redelivery,
    Silence,
    Snooze,
    decode_control,
    write_controls,
)
from alerting.deliver.state.records import DeliveryDecision, WebhookMessage, decode_record
from runtime.kafka.reader import read_to_end
from runtime.processor.intake import to_input
from runtime.processor.step import newest_values
from tally.config.settings import Settings
from tally.errors import TallyError
from tally.time.instants import to_millis

DELIVERIES = "alert-deliveries"
Control = TypeVar("Control", AlertChannel, Silence, Snooze, Acknowledgement)


class StateDelivery(NamedTuple):
    """The delivery decision for one state of an alert on a channel, and its message, if any."""

    decision: DeliveryDecision
    message: WebhookMessage | None


def channels(settings: Settings) -> dict[str, AlertChannel]:
    """The channels with their latest settings, by id."""
    named = {channel.channel_id: channel for channel in _read_controls(settings, AlertChannel)}
    return dict(sorted(named.items()))


def set_channel(settings: Settings, content: bytes) -> AlertChannel:
    """Write the channel that a JSON object describes to all partitions, and return it.

    Raises TallyError for an invalid channel, SendFailed when an unknown part was not stored.
    """
    try:
        fields = msgspec.json.decode(content, type=dict[str, object])
        channel = decode_control(msgspec.json.encode({**fields, "is": "channel"}))
    except msgspec.DecodeError as error:
        raise TallyError(f"channel: {error}; docs/alerts-webhooks.md has one") from error
    assert isinstance(channel, AlertChannel)
    # Not read back here: each dispatcher applies the control at its own position in the topic.
    write_controls(settings, [channel])
    return channel


def silences(settings: Settings) -> list[Silence]:
    """All silences ever set, in their latest version, ordered by start."""
    # Each partition has a copy of every silence.
    named = {silence.silence_id: silence for silence in _read_controls(settings, Silence)}
    return sorted(named.values(), key=lambda silence: (silence.starts, silence.silence_id))


def read_alert_controls(settings: Settings, alert_id: str) -> list[Snooze | Acknowledgement]:
    """The snoozes and acknowledgements of the alert."""
    controls = map(decode_control, _latest_values(settings, TOPIC))
    marks = (control for control in controls if isinstance(control, Snooze | Acknowledgement))
    ours = (mark for mark in marks if mark.alert_id == alert_id)
    return sorted(ours, key=lambda mark: mark.key)


def read_decisions(settings: Settings, alert_id: str) -> list[StateDelivery]:
    """The delivery decisions about the alert, by channel, in the order of its states."""
    records = [decode_record(value) for value in _latest_values(settings, DELIVERIES)]
    messages = {record.key: record for record in records if isinstance(record, WebhookMessage)}
    states = [
        StateDelivery(decision, messages.get(f"{decision.channel}|{decision.message}"))
        for decision in records
        if isinstance(decision, DeliveryDecision) and decision.alert.alert_id == alert_id
    ]
    return sorted(
        states, key=lambda state: (state.decision.channel, state_rank(state.decision.alert))
    )


def deliveries(settings: Settings, channel_id: str) -> list[WebhookMessage]:
    """The channel's messages, ordered by the time at which they are due."""
    of_channel = (message for message in _messages(settings) if message.channel == channel_id)
    return sorted(of_channel, key=lambda message: (message.due_at, message.order))


def redeliver(settings: Settings, channel_id: str, message_id: str) -> WebhookMessage:
    """Ask the dispatcher to send the message again, and return the message as it was.

    Raises TallyError when there is none, or it waits already; SendFailed as in `write_controls`.
    """
    known = deliveries(settings, channel_id)
    found = (message for message in known if message.message_id == message_id)
    message = next(found, None)
    if message is None:
        raise TallyError(
            f"channel {channel_id}: no message {message_id};"
            f" `tally channels deliveries {channel_id}` shows those there are"
        )
    if message.outcome == "waiting":
        raise TallyError(f"{message_id} waits for its next attempt already; nothing is to be done")
    _ask_again(settings, [message])
    return message


def redeliver_dead(settings: Settings, channel_id: str = "") -> list[WebhookMessage]:
    """Request redelivery of the dead messages of one channel or all, and return them.

    Heartbeats, and messages with an unknown outcome, are left out. Raises SendFailed as in
    `write_controls`.
    """
    dead = (
        message
        for message in _messages(settings)
        if message.outcome == "dead"
        and message.kind != "heartbeat"
        and channel_id in ("", message.channel)
    )
    # One read and one write for all messages, in the order in which they were created.
    ordered = sorted(dead, key=lambda message: (message.channel, message.order))
    _ask_again(settings, ordered)
    return ordered


def _ask_again(settings: Settings, messages: Sequence[WebhookMessage]) -> None:
    now = to_millis(datetime.now(UTC))
    requests = (
        Redelivery(channel_id=message.channel, message_id=message.message_id, asked_at=now)
        for message in messages
    )
    write_controls(settings, requests)


def _read_controls(settings: Settings, kind: type[Control]) -> Iterator[Control]:
    controls = map(decode_control, _latest_values(settings, TOPIC))
    return (control for control in controls if isinstance(control, kind))


def _messages(settings: Settings) -> Iterator[WebhookMessage]:
    records = map(decode_record, _latest_values(settings, DELIVERIES))
    return (record for record in records if isinstance(record, WebhookMessage))


def _latest_values(settings: Settings, topic: str) -> Iterator[bytes]:
    """The latest value of each key in each partition."""
    records = map(to_input, read_to_end(settings, [topic]))
    for values in newest_values(records, lambda record: record.value or b"").values():
        yield from values.values()
