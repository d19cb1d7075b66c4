"""Messages that tell of many alerts by their numbers, or of none: storms, catching up, heartbeats.

Each alert that they count is in the topic and in the inbox.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import structs

from tally.alerts.delivery.body import body_text, hashed_id
from tally.alerts.delivery.controls import AlertChannel
from tally.alerts.delivery.deciding import Surroundings
from tally.alerts.delivery.many_silent import DeskMemories, crowds, is_early, silences
from tally.alerts.delivery.memory import MINUTE, DeliveryMemory
from tally.alerts.delivery.records import (
    DeliveryDecision,
    KeptDelivery,
    WebhookKind,
    WebhookMessage,
)
from tally.instants import from_millis, instant_text

HEARTBEAT_MILLIS = 5 * MINUTE
# Of so many rules the numbers are told, the largest first.
MOST_RULES = 50
# A kind of message, what its key is made of, and what it says.
_SummaryContent: TypeAlias = tuple[WebhookKind, tuple[str, ...], Mapping[str, Any]]


def summed_up(partition: int, around: Surroundings, desks: DeskMemories) -> list[KeptDelivery]:
    """One message for each minute of a storm, for each time of catching up, for a silent region.

    The decisions that are counted name it from then on, so none is counted twice. Of storms and of
    what is old each partition tells its own, of silent regions one tells for all; `desks`: those of
    this process, that of the partition among them.
    """
    kept: list[KeptDelivery] = []
    memory, own = desks[partition], str(partition)
    for (channel_id, kind, minute), decisions in sorted(_counted(memory).items()):
        channel = memory.channels[channel_id]
        instants = [one.alert.raised_at for one in decisions]
        first, last = min(instants), max(instants)
        # Of one burst one message, whoever restores: its key is made of what it counts.
        names = (own, str(minute)) if kind == "storm" else (own, first, last)
        told = {**_numbers(decisions), "partition": partition, "from": first, "to": last}
        kept += _summary(channel, memory, (kind, names, told), decisions)
    for (channel_id, region), decisions in sorted(_silent(around, desks).items()):
        kept += _region_told(desks, partition, (channel_id, region), decisions)
    return kept


def heartbeats(memory: DeliveryMemory, partition: int) -> list[KeptDelivery]:
    """A message to each channel that wants one, five minutes after the last.

    Where it does not come, alerts of this partition's stores may not come either. It takes the
    place of the one before it, called for or not.
    """
    now = memory.time.at
    slot = now // HEARTBEAT_MILLIS
    return [
        WebhookMessage(
            channel=channel.channel_id,
            message_id=hashed_id("beat", channel.channel_id, str(partition), str(slot)),
            kind="heartbeat",
            url=channel.url,
            body=body_text("heartbeat", instant_text(from_millis(now)), {"partition": partition}),
            lanes=("heartbeat",),
            order=memory.order,
            due_at=now,
            expires_at=(slot + 1) * HEARTBEAT_MILLIS,
        )
        for channel in memory.channels.values()
        if channel.heartbeat
        and channel.enabled
        and not memory.is_gone(channel.channel_id, channel.url)
        and _slot_of_last(channel, memory) < slot
    ]


def _slot_of_last(channel: AlertChannel, memory: DeliveryMemory) -> int:
    last = memory.messages.get(f"{channel.channel_id}|heartbeat")
    if last is None or last.expires_at is None:
        return -1
    return last.expires_at // HEARTBEAT_MILLIS - 1


def _counted(
    memory: DeliveryMemory,
) -> Mapping[tuple[str, WebhookKind, int], list[DeliveryDecision]]:
    minute = memory.time.at // MINUTE
    found: dict[tuple[str, WebhookKind, int], list[DeliveryDecision]] = defaultdict(list)
    for one in memory.uncounted.values():
        if one.why == "storm":
            found[one.channel, "storm", one.at // MINUTE].append(one)
        else:
            found[one.channel, "catchup", 0].append(one)
    # A minute that goes on may bring more, and so may catching up until a minute brings nothing.
    return {
        at: decisions
        for at, decisions in found.items()
        if max(one.at for one in decisions) // MINUTE < minute - (at[1] == "catchup")
    }


def _silent(
    around: Surroundings, desks: DeskMemories
) -> Mapping[tuple[str, str], list[DeliveryDecision]]:
    """By channel and region what is told of as one, of all partitions."""
    regions = crowds(around, desks)
    found: dict[tuple[str, str], list[DeliveryDecision]] = defaultdict(list)
    for one in (one for memory in desks.values() for one in silences(memory)):
        if region := regions.get(one.key):
            found[one.channel, region].append(one)
    return found


def _region_told(
    desks: DeskMemories,
    partition: int,
    where: tuple[str, str],
    decisions: Sequence[DeliveryDecision],
) -> list[KeptDelivery]:
    """The message of a silent region, if it is this partition's to make; and who is counted."""
    memory, (channel_id, region) = desks[partition], where
    own = {one.key for one in silences(memory)}
    mine = [one for one in decisions if one.key in own]
    # Told once: whoever joins a region that is known to be silent is counted with it.
    if known := sorted(one.message for one in decisions if one.crowd):
        joining = (one for one in mine if not one.crowd)
        return [structs.replace(one, message=known[0], crowd=region) for one in joining]
    # Whichever partition comes to it speaks for all, when no others are to be waited for.
    if all(is_early(memory, one) for one in mine):
        return []
    began = min(one.alert.raised_at for one in decisions)
    told = {**_numbers(decisions), "region": region, "from": began}
    # With the partition: another process may speak for others of its stores.
    what: _SummaryContent = "silence", (str(partition), region, began), told
    message, *counted = _summary(memory.channels[channel_id], memory, what, mine)
    named = [one for one in counted if isinstance(one, DeliveryDecision)]
    return [message, *(structs.replace(one, crowd=region) for one in named)]


def _numbers(decisions: Sequence[DeliveryDecision]) -> dict[str, Any]:
    alerts = [one.alert for one in decisions]
    rules = Counter(alert.rule_id for alert in alerts)
    return {
        "alerts": len(alerts),
        "stores": len({alert.store_id for alert in alerts}),
        "severities": dict(sorted(Counter(alert.severity for alert in alerts).items())),
        "rules": dict(rules.most_common(MOST_RULES)),
        "other_rules": max(0, len(rules) - MOST_RULES),
        "link": "/v1/alerts",
    }


def _summary(
    channel: AlertChannel,
    memory: DeliveryMemory,
    what: _SummaryContent,
    decisions: Sequence[DeliveryDecision],
) -> list[KeptDelivery]:
    kind, names, told = what
    message = WebhookMessage(
        channel=channel.channel_id,
        message_id=hashed_id(kind, channel.channel_id, *names),
        kind=kind,
        url=channel.url,
        body=body_text(f"alerts.{kind}", max(one.alert.raised_at for one in decisions), told),
        lanes=(kind,),
        order=memory.order + 1,
        due_at=memory.time.at,
        promise=channel.promise,
    )
    counted = [structs.replace(one, message=message.message_id) for one in decisions]
    return [message, *counted]
