"""Retention of delivery records: those that ended long ago are deleted."""

from collections.abc import Iterator, Sequence

from alerting.deliver.state.controls import AlertControl, Silence, Snooze
from alerting.deliver.state.memory import DeliveryMemory
from alerting.deliver.state.records import DeliveryDecision, StoredDelivery, WebhookMessage
from tally.time.instants import DAY_MILLIS

RETENTION_DAYS = 90


def find_outdated(memory: DeliveryMemory) -> list[StoredDelivery]:
    """The records that ended more than RETENTION_DAYS days ago, by ticks.

    An open episode is kept at any age, because a receiver of its raise must get its end.
    """
    limit = memory.time.at - RETENTION_DAYS * DAY_MILLIS
    found: list[DeliveryDecision] = []
    named: set[str] = set()
    for decisions in memory.episodes():
        # An episode is deleted as a whole, because an end alone would look as if it had no raise.
        if _has_ended(decisions) and max(decision.at for decision in decisions) < limit:
            found += decisions
        else:
            named |= {f"{decision.channel}|{decision.message}" for decision in decisions}
    return [
        *found,
        *(message for message in _find_ended_messages(memory, limit) if message.key not in named),
        *_find_ended_controls(memory),
    ]


def is_over(control: AlertControl, now: int) -> bool:
    """Whether a silence or a snooze ended more than a day ago, so that it has no effect any more.

    The day leaves time for a late record that ends it early or extends it.
    """
    match control:
        case Silence():
            return control.ends < now - DAY_MILLIS
        case Snooze():
            return control.until < now - DAY_MILLIS
    return False


def _find_ended_controls(memory: DeliveryMemory) -> Iterator[StoredDelivery]:
    now, holds = memory.time.at, memory.holds
    controls: list[Silence | Snooze] = [*holds.silences, *holds.snoozes.values()]
    yield from (control for control in controls if is_over(control, now))
    still_open = {alert_id for _, alert_id in (*memory.open, *memory.held)}
    for acknowledgement in memory.acknowledged.values():
        if acknowledgement.alert_id not in still_open and acknowledgement.at < now - DAY_MILLIS:
            yield acknowledgement


def _find_ended_messages(memory: DeliveryMemory, limit: int) -> Iterator[WebhookMessage]:
    for message in memory.messages.values():
        if message.outcome != "waiting" and message.due_at < limit:
            yield message


def _has_ended(decisions: Sequence[DeliveryDecision]) -> bool:
    last = {decision.alert.alert_id: decision.alert for decision in decisions}
    raised, *ends = last.values()
    is_ended = any(end.state != "retracted" for end in ends)
    return raised.state == "retracted" or raised.edge == "clear" or is_ended
