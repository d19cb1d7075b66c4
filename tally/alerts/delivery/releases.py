"""What goes out when what held it back is over, and whose turn it is."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from msgspec import structs

from tally.alerts.delivery.body import (
    alert_body,
    alert_message_id,
    group_body,
    hashed_id,
    parted,
)
from tally.alerts.delivery.controls import SEVERITIES, AlertChannel, severity_rank
from tally.alerts.delivery.deciding import DeliveryRules, Surroundings, holding
from tally.alerts.delivery.groups import SilentCrowds
from tally.alerts.delivery.memory import DeliveryMemory
from tally.alerts.delivery.records import DeliveryDecision, KeptDelivery, WebhookMessage
from tally.alerts.message import Alert

WANTS_NO_MORE = "the receiver wants no more"


def alert_message(
    alert: Alert, channel: AlertChannel, memory: DeliveryMemory, rules: DeliveryRules
) -> WebhookMessage:
    """The message that tells a channel of one state of an alert, due at once.

    It goes where the first of its episode went, wherever the channel points now: there somebody
    waits for its end.
    """
    url = _address(alert, channel, memory)
    return _made(
        channel,
        memory,
        WebhookMessage(
            channel=channel.channel_id,
            message_id=alert_message_id(alert),
            kind="alert",
            url=url,
            body=alert_body(alert),
            lanes=(rules.lane(alert),),
            needs=rules.needs(alert),
            order=0,
            due_at=0,
        ),
    )


def released(
    memory: DeliveryMemory, rules: DeliveryRules, around: Surroundings, crowds: SilentCrowds
) -> list[KeptDelivery]:
    """Messages and decisions of what nothing holds back any more.

    Raises that are still open, and ends of raises that were sent, in their last state; what has
    begun and ended meanwhile stays where it is, for nobody can do anything about it now. A single
    one goes out as itself, several as a group, which no attempt makes anew.
    """
    free: dict[tuple[str, str], list[DeliveryDecision]] = defaultdict(list)
    # By when they were taken, and not by what a restored memory met first.
    for channel_id, alert_id in sorted(memory.held, key=memory.taken):
        last = memory.told(channel_id, alert_id)[-1]
        channel = memory.channels[channel_id]
        if last.key not in crowds.regions and _is_free(last, channel, memory, around):
            # By address too: an end goes where its raise went.
            free[channel_id, _address(last.alert, channel, memory)].append(last)
    kept: list[KeptDelivery] = []
    for (channel_id, url), decisions in sorted(free.items()):
        channel = memory.channels[channel_id]
        for kept_now in _parts(channel, url, decisions, (memory, rules)):
            for one in kept_now:
                memory.remember(one)
            kept += kept_now
    return kept


def heads(
    waiting: Iterable[WebhookMessage],
    under_way: Collection[WebhookMessage],
    now: int,
) -> list[WebhookMessage]:
    """The messages that are due and wait for no other one.

    Of two that share a lane the first has to come to its end, due or not; those under way hold
    their lanes.
    """
    taken = {(one.channel, lane) for one in under_way for lane in one.lanes}
    keys = {message.key for message in under_way}
    found = []
    for message in sorted(waiting, key=lambda one: one.order):
        lanes = {(message.channel, lane) for lane in message.lanes}
        if message.key not in keys and not lanes & taken and message.due_at <= now:
            found.append(message)
        taken |= lanes
    return found


def urgency(message: WebhookMessage, memory: DeliveryMemory) -> tuple[int, bool, int]:
    """Ascending what is called for first: the most severe, then the untried, then by order.

    Out: the place of its severity, negative; whether it was tried; its place in the order.
    """
    severities = (decision.alert.severity for decision in memory.carried_by(message))
    rank = max(map(severity_rank, severities), default=0)
    # A heartbeat that waits behind alerts would say that there is no dispatcher.
    if message.kind == "heartbeat":
        rank = len(SEVERITIES)
    return -rank, message.attempts > 0, message.order


def _is_free(
    last: DeliveryDecision, channel: AlertChannel, memory: DeliveryMemory, around: Surroundings
) -> bool:
    zone = around.store(last.alert.store_id).zone
    at = memory.time.at, zone
    return channel.enabled and not holding(last.alert, channel, memory.holds, at)


def _parts(
    channel: AlertChannel,
    url: str,
    decisions: Sequence[DeliveryDecision],
    with_what: tuple[DeliveryMemory, DeliveryRules],
) -> Iterable[list[KeptDelivery]]:
    memory, rules = with_what
    by_id = {one.alert.alert_id: one for one in decisions}
    for alerts in parted([one.alert for one in decisions]):
        members = [by_id[alert.alert_id] for alert in alerts]
        if len(members) == 1:
            message = alert_message(alerts[0], channel, memory, rules)
            message = structs.replace(message, due_at=memory.time.at)
        else:
            message = _group(channel, url, alerts, with_what)
        sent = [
            structs.replace(
                one,
                verdict="send",
                why="released",
                message=message.message_id,
                at=memory.time.at,
                tick=memory.time.n,
            )
            for one in members
        ]
        yield [message, *sent]


def _group(
    channel: AlertChannel,
    url: str,
    alerts: Sequence[Alert],
    with_what: tuple[DeliveryMemory, DeliveryRules],
) -> WebhookMessage:
    memory, rules = with_what
    states = [f"{alert.alert_id}|{alert.state}" for alert in alerts]
    return _made(
        channel,
        memory,
        WebhookMessage(
            channel=channel.channel_id,
            message_id=hashed_id("grp", *states),
            kind="group",
            url=url,
            body=group_body(alerts),
            # Whatever follows any of them waits for the whole group.
            lanes=tuple(dict.fromkeys(rules.lane(alert) for alert in alerts)),
            order=0,
            due_at=memory.time.at,
        ),
    )


def _made(channel: AlertChannel, memory: DeliveryMemory, message: WebhookMessage) -> WebhookMessage:
    numbered = structs.replace(message, order=memory.order + 1, promise=channel.promise)
    # Stored all the same: it can be seen, and called for again when the address is another one.
    if memory.is_gone(channel.channel_id, message.url):
        return structs.replace(numbered, outcome="dead", cause=WANTS_NO_MORE)
    return numbered


def _address(alert: Alert, channel: AlertChannel, memory: DeliveryMemory) -> str:
    for alert_id in (alert.alert_id, alert.of):
        told = memory.carrying(channel.channel_id, alert_id) if alert_id else iter(())
        if first := next(told, None):
            return first.url
    return channel.url
