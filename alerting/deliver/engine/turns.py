"""The turns of messages: which ones are sent now, and which ones wait or end."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from msgspec import structs

from alerting.deliver.engine import gate, releases
from alerting.deliver.state import attempts
from alerting.deliver.state.call_limits import CallCapacity
from alerting.deliver.state.controls import Redelivery
from alerting.deliver.state.memory import DeliveryMemory
from alerting.deliver.state.records import DeliveryReason, StoredDelivery, WebhookMessage
from alerting.deliver.state.routing import DeliveryContext

# The check that holds a message back; tests replace it with one that is wrong on purpose.
HoldCheck = Callable[[WebhookMessage, DeliveryMemory, DeliveryContext], DeliveryReason]


class StartedAttempts(NamedTuple):
    """The records to store, and the calls to make after that."""

    records: list[StoredDelivery]
    calls: list[WebhookMessage]


def begin_due_attempts(
    memory: DeliveryMemory,
    around: DeliveryContext,
    under_way: Collection[WebhookMessage],
    room: CallCapacity,
    obstacle: HoldCheck = gate.message_hold_reason,
) -> StartedAttempts:
    """The messages whose turn it is, with one more attempt, and the messages that end."""
    now, called = memory.time.at, {message.key for message in under_way}
    begun = StartedAttempts([], [])
    # Before any tick there is no time for an attempt to begin at.
    if not now:
        return begun
    for message in [*memory.waiting.values()]:
        over = attempts.give_up_overdue(message, now)
        if over is not None and message.key not in called:
            _remember(memory, begun, [over])

    def find_hold_reason(message: WebhookMessage) -> DeliveryReason:
        return obstacle(message, memory, around)

    stays: set[str] = set()
    is_moving = True
    while is_moving:
        is_moving = False
        calls = [*under_way, *begun.calls]
        due = releases.find_due_heads(memory.waiting.values(), calls, now)
        turns = [message for message in due if message.key not in stays]
        for message in sorted(turns, key=lambda turn: releases.urgency(turn, memory)):
            # A message that ends without a call makes room for the next one of its lane.
            is_moving |= _take_turn(memory, message, (room, begun), find_hold_reason)
            stays.add(message.key)
    return begun


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


def _take_turn(
    memory: DeliveryMemory,
    message: WebhookMessage,
    room_and_begun: tuple[CallCapacity, StartedAttempts],
    obstacle_of: Callable[[WebhookMessage], DeliveryReason],
) -> bool:
    """Begins an attempt of a message, ends it or leaves it; returns whether it ended."""
    room, begun = room_and_begun
    now = memory.time.at
    if cause := _end_cause(message, memory):
        _remember(memory, begun, [structs.replace(message, outcome="dead", cause=cause)])
        return True
    if message.kind == "repeat" and not _is_repeat_needed(message, memory):
        _remember(memory, begun, [structs.replace(message, outcome="withdrawn")])
        return True
    if why := obstacle_of(message):
        if not gate.is_unsent(message, memory):
            return False
        _remember(memory, begun, gate.withdraw_message(message, why, memory))
        return True
    if not room.reserve(message.url):
        return False
    turn = attempts.begin_attempt(message, now)
    _remember(memory, begun, [turn])
    begun.calls.append(turn)
    return False


def _remember(
    memory: DeliveryMemory, begun: StartedAttempts, records: list[StoredDelivery]
) -> None:
    for record in records:
        memory.remember(record)
    begun.records.extend(records)


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
