"""Alert channels: their settings, and the delivery state of their messages."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from alerting.alert.current_state import state_rank
from alerting.deliver.state.control_writer import TOPIC, write_controls
from alerting.deliver.state.controls import (
    Acknowledgement,
    AlertChannel,
    Redelivery,
    Silence,
    Snooze,
    decode_control,
)
from alerting.deliver.state.records import DeliveryDecision, WebhookMessage, decode_record
from runtime.kafka.keyed_records import newest_values
from runtime.kafka.reader import read_to_end
from runtime.processor.intake import to_input
from tally.config.settings import Settings
from tally.errors import TallyError
from tally.time.instants import to_millis

DELIVERIES = "alert-deliveries"
_MILLIS = 1_000


class StateDelivery(NamedTuple):
    """The delivery decision for one state of an alert on a channel, and its message, if any."""

    decision: DeliveryDecision
    message: WebhookMessage | None


def channels(settings: Settings) -> dict[str, AlertChannel]:
    """The channels with their latest settings, by id."""
    found = (decode_control(value) for value in _latest_values(settings, TOPIC))
    named = {control.channel_id: control for control in found if isinstance(control, AlertChannel)}
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


def write_control(settings: Settings, settled: Silence | Snooze | Acknowledgement) -> None:
    """Write a silence, a snooze or an acknowledgement; the latest record of a key applies.

    Raises SendFailed when an unknown part was not stored.
    """
    write_controls(settings, [settled])


def silences(settings: Settings) -> list[Silence]:
    """All silences ever set, in their latest version, ordered by start."""
    found = (decode_control(value) for value in _latest_values(settings, TOPIC))
    # Each partition has a copy of every silence.
    named = {control.silence_id: control for control in found if isinstance(control, Silence)}
    return sorted(named.values(), key=lambda silence: (silence.starts, silence.silence_id))


def read_alert_controls(settings: Settings, alert_id: str) -> list[Snooze | Acknowledgement]:
    """The snoozes and acknowledgements of the alert."""
    found = (decode_control(value) for value in _latest_values(settings, TOPIC))
    marks = (control for control in found if isinstance(control, Snooze | Acknowledgement))
    ours = [mark for mark in marks if mark.alert_id == alert_id]
    return sorted(ours, key=lambda mark: mark.key)


def read_decisions(settings: Settings, alert_id: str) -> list[StateDelivery]:
    """The delivery decisions about the alert, by channel, in the order of its states."""
    records = [decode_record(value) for value in _latest_values(settings, DELIVERIES)]
    messages = {record.key: record for record in records if isinstance(record, WebhookMessage)}
    decisions = [record for record in records if isinstance(record, DeliveryDecision)]
    states = [
        StateDelivery(decision, messages.get(f"{decision.channel}|{decision.message}"))
        for decision in decisions
        if decision.alert.alert_id == alert_id
    ]
    by_state = sorted(states, key=lambda state: state_rank(state.decision.alert))
    return sorted(by_state, key=lambda state: state.decision.channel)


def deliveries(settings: Settings, channel_id: str) -> list[WebhookMessage]:
    """The channel's messages, ordered by the time at which they are due."""
    records = (decode_record(value) for value in _latest_values(settings, DELIVERIES))
    messages = [record for record in records if isinstance(record, WebhookMessage)]
    of_channel = [message for message in messages if message.channel == channel_id]
    return sorted(of_channel, key=lambda message: (message.due_at, message.order))


def redeliver(settings: Settings, channel_id: str, message_id: str) -> WebhookMessage:
    """Ask the dispatcher to send the message again, and return the message as it was.

    Raises TallyError when there is none, or it waits already; SendFailed as in `write_control`.
    """
    found = [
        message for message in deliveries(settings, channel_id) if message.message_id == message_id
    ]
    if not found:
        raise TallyError(
            f"channel {channel_id}: no message {message_id};"
            f" `tally channels deliveries {channel_id}` shows those there are"
        )
    if found[0].outcome == "waiting":
        raise TallyError(f"{message_id} waits for its next attempt already; nothing is to be done")
    now = to_millis(datetime.now(UTC))
    request = Redelivery(channel_id=channel_id, message_id=message_id, asked_at=now)
    write_controls(settings, [request])
    return found[0]


def redeliver_dead(settings: Settings, channel_id: str = "") -> list[WebhookMessage]:
    """Request redelivery of the dead messages of one channel or all, and return them.

    Heartbeats, and messages with an unknown outcome, are left out. Raises SendFailed as in
    `write_control`.
    """
    records = (decode_record(value) for value in _latest_values(settings, DELIVERIES))
    dead = [
        message
        for message in records
        if isinstance(message, WebhookMessage)
        and message.outcome == "dead"
        and message.kind != "heartbeat"
        and channel_id in ("", message.channel)
    ]
    now = to_millis(datetime.now(UTC))
    # One read and one write for all messages, in the order in which they were created.
    ordered = sorted(dead, key=lambda message: (message.channel, message.order))
    write_controls(
        settings,
        [
            Redelivery(channel_id=message.channel, message_id=message.message_id, asked_at=now)
            for message in ordered
        ],
    )
    return ordered


def _latest_values(settings: Settings, topic: str) -> Iterator[bytes]:
    """The latest value of each key in each partition."""
    records = map(to_input, read_to_end(settings, [topic]))
    for values in newest_values(records, lambda record: record.value or b"").values():
        yield from values.values()
