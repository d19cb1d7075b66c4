"""Whose turn it is: which messages are called for now, and what becomes of those that are not."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from msgspec import structs

from tally.alerts.delivery import attempts, gate, releases
from tally.alerts.delivery.controls import Redelivery
from tally.alerts.delivery.deciding import Surroundings
from tally.alerts.delivery.memory import DeliveryMemory
from tally.alerts.delivery.records import DeliveryReason, KeptDelivery, WebhookMessage
from tally.alerts.delivery.room import CallRoom

# What keeps a message back now; another one in its place is wrong on purpose.
Obstacle = Callable[[WebhookMessage, DeliveryMemory, Surroundings], DeliveryReason]


class BegunAttempts(NamedTuple):
    """Records to store, and what to call once they are."""

    kept: list[KeptDelivery]
    calls: list[WebhookMessage]


def begun_attempts(
    memory: DeliveryMemory,
    around: Surroundings,
    under_way: Collection[WebhookMessage],
    room: CallRoom,
    obstacle: Obstacle = gate.obstacle,
) -> BegunAttempts:
    """The messages whose turn it is, with one more attempt, and those that come to their end."""
    now, called = memory.time.at, {message.key for message in under_way}
    begun = BegunAttempts([], [])
    # Before any tick nobody knows since when an attempt is under way.
    if not now:
        return begun
    for message in [*memory.waiting.values()]:
        over = attempts.given_up(message, now)
        if over is not None and message.key not in called:
            _keep(memory, begun, [over])

    def obstacle_of(message: WebhookMessage) -> DeliveryReason:
        return obstacle(message, memory, around)

    stays: set[str] = set()
    is_moving = True
    while is_moving:
        is_moving = False
        calls = [*under_way, *begun.calls]
        due = releases.heads(memory.waiting.values(), calls, now)
        turns = [message for message in due if message.key not in stays]
        for message in sorted(turns, key=lambda one: releases.urgency(one, memory)):
            # What comes to its end without a call makes room for the next of its lane.
            is_moving |= _take_turn(memory, message, (room, begun), obstacle_of)
            stays.add(message.key)
    return begun


def called_anew(memory: DeliveryMemory, asked: Redelivery) -> list[KeptDelivery]:
    """The message that somebody asks for, as if it had never been called for."""
    found = memory.messages.get(f"{asked.channel_id}|{asked.message_id}")
    if found is None or found.outcome == "waiting":
        return []
    # Somebody has asked for it: what it follows, and how often it failed, no longer counts.
    anew = structs.replace(
        found,
        outcome="waiting",
        due_at=memory.time.at,
        begun_at=None,
        attempts=0,
        refusals=0,
        needs=(),
        is_asked=True,
    )
    return [anew]


def _take_turn(
    memory: DeliveryMemory,
    message: WebhookMessage,
    into: tuple[CallRoom, BegunAttempts],
    obstacle_of: Callable[[WebhookMessage], DeliveryReason],
) -> bool:
    """Call for a message, end it or leave it; whether it came to an end."""
    room, begun = into
    now = memory.time.at
    if cause := _end(message, memory):
        _keep(memory, begun, [structs.replace(message, outcome="dead", cause=cause)])
        return True
    if message.kind == "repeat" and not _is_wanted(message, memory):
        _keep(memory, begun, [structs.replace(message, outcome="withdrawn")])
        return True
    if why := obstacle_of(message):
        if not gate.is_unsent(message, memory):
            return False
        _keep(memory, begun, gate.withdrawn(message, why, memory))
        return True
    if not room.take(message.url):
        return False
    turn = attempts.begun(message, now)
    _keep(memory, begun, [turn])
    begun.calls.append(turn)
    return False


def _keep(memory: DeliveryMemory, begun: BegunAttempts, kept: list[KeptDelivery]) -> None:
    for record in kept:
        memory.remember(record)
    begun.kept.extend(kept)


def _end(message: WebhookMessage, memory: DeliveryMemory) -> str:
    """Why nobody is called any more for the message; "" for no reason."""
    channel, now = message.channel, memory.time.at
    # Late it would say that all is well, of a time when nobody knew.
    if message.expires_at is not None and now >= message.expires_at:
        return "its time is over"
    # Whatever kind it is of, and whenever it was made.
    if memory.is_gone(channel, message.url):
        return releases.WANTS_NO_MORE
    if not all(memory.may_have_arrived(channel, alert_id) for alert_id in message.needs):
        return "what it follows was refused"
    return ""


def _is_wanted(repeat: WebhookMessage, memory: DeliveryMemory) -> bool:
    """Whether the alert is still open, and nobody has taken it on."""
    alert_id = repeat.lanes[0]
    is_open = (repeat.channel, alert_id) in memory.open
    return is_open and alert_id not in memory.acknowledged
