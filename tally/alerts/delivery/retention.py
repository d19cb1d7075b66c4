"""What of deliveries is kept no longer: what has ended long ago, so that nobody asks for it."""

from collections.abc import Iterator, Sequence

from tally.alerts.delivery.controls import AlertControl, Silence, Snooze
from tally.alerts.delivery.memory import DeliveryMemory
from tally.alerts.delivery.records import DeliveryDecision, KeptDelivery, WebhookMessage

DAY = 24 * 3_600_000
DAYS = 90


def outdated(memory: DeliveryMemory) -> list[KeptDelivery]:
    """The records of what ended DAYS days ago, by ticks.

    An episode that goes on is kept, however old it is: who has its raise is owed its end.
    """
    limit = memory.time.at - DAYS * DAY
    found: list[DeliveryDecision] = []
    named: set[str] = set()
    for decisions in memory.episodes():
        # All of an episode or nothing: an end alone would look like one without a raise.
        if _is_over(decisions) and max(one.at for one in decisions) < limit:
            found += decisions
        else:
            named |= {f"{one.channel}|{one.message}" for one in decisions}
    return [
        *found,
        *(one for one in _settled(memory, limit) if one.key not in named),
        *_ended_controls(memory),
    ]


def is_over(control: AlertControl, now: int) -> bool:
    """Whether a silence or a snooze ended so long ago that nobody has to know of it.

    A day: who ends one early, or extends it, writes it again about then.
    """
    match control:
        case Silence():
            return control.ends < now - DAY
        case Snooze():
            return control.until < now - DAY
    return False


def _ended_controls(memory: DeliveryMemory) -> Iterator[KeptDelivery]:
    now, holds = memory.time.at, memory.holds
    controls: list[Silence | Snooze] = [*holds.silences, *holds.snoozes.values()]
    yield from (control for control in controls if is_over(control, now))
    still_open = {alert_id for _, alert_id in (*memory.open, *memory.held)}
    for noted in memory.acknowledged.values():
        if noted.alert_id not in still_open and noted.at < now - DAY:
            yield noted


def _settled(memory: DeliveryMemory, limit: int) -> Iterator[WebhookMessage]:
    for one in memory.messages.values():
        if one.outcome != "waiting" and one.due_at < limit:
            yield one


def _is_over(decisions: Sequence[DeliveryDecision]) -> bool:
    last = {one.alert.alert_id: one.alert for one in decisions}
    raised, *ends = last.values()
    is_ended = any(end.state != "retracted" for end in ends)
    return raised.state == "retracted" or raised.edge == "clear" or is_ended
