"""Summaries: one message for alerts that are too many at once or too old.

Alerts of one channel, region and rule are a group. A group waits until no more alerts join it, is
sent once, names the stores, and shows the most severe alerts. Its id is computed from the ids of
its members, so no other group ever has it.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import accumulate, takewhile
from typing import Any, TypeAlias, TypeVar

from msgspec import structs

from alerting.deliver.state.body import MAX_BYTES, encode_body, hash_id, json_size
from alerting.deliver.state.controls import severity_rank
from alerting.deliver.state.memory import MINUTE, DeliveryMemory
from alerting.deliver.state.records import DeliveryDecision, StoredDelivery, WebhookMessage
from alerting.deliver.state.routing import DeliveryContext

# A group is sent after WAIT without a new member, and in any case after MAX_WAIT.
WAIT, MAX_WAIT = MINUTE, 10 * MINUTE
# The region of all stores.
EVERYWHERE = "*"
# Limits in bytes for the most severe alerts and the store names in a body.
_LINE_BYTES, _STORE_BYTES = MAX_BYTES // 2, MAX_BYTES // 3
Listed = TypeVar("Listed")
# Channel, reason of the group, region and rule.
_GroupKey: TypeAlias = tuple[str, str, str, str]


def build_summaries(
    memory: DeliveryMemory, partition: int, around: DeliveryContext
) -> list[StoredDelivery]:
    """The messages of the groups that wait no longer, and their members, which name them."""
    grouped: dict[_GroupKey, list[DeliveryDecision]] = defaultdict(list)
    for decision in memory.uncounted.values():
        alert = decision.alert
        region = next(iter(around.store(alert.store_id).regions), EVERYWHERE)
        grouped[decision.channel, decision.why, region, alert.rule_id].append(decision)
    changed: list[StoredDelivery] = []
    for key, members in sorted(grouped.items()):
        if _is_complete([member.at for member in members], memory.time.at):
            changed += _summarise_group(memory, partition, key, members)
    return changed


def _is_complete(decided_at: Sequence[int], now: int) -> bool:
    return now >= min(max(decided_at) + WAIT, min(decided_at) + MAX_WAIT)


def _summarise_group(
    memory: DeliveryMemory, partition: int, key: _GroupKey, members: Sequence[DeliveryDecision]
) -> list[StoredDelivery]:
    """The message of a group, and its members, which name it."""
    channel_id, why, region, rule_id = key
    channel = memory.channels[channel_id]
    instants = [member.alert.raised_at for member in members]
    origin = {"why": why, "region": region, "rule_id": rule_id, "partition": partition}
    numbers = {"from": min(instants), "to": max(instants), **_summary_numbers(members)}
    # The id depends only on the members, because two groups never have all members in common.
    names = sorted(member.key for member in members)
    message = WebhookMessage(
        channel=channel_id,
        message_id=hash_id("grp", *names),
        kind="summary",
        url=channel.url,
        body=encode_body("alerts.summary", max(instants), {**origin, **numbers}),
        lanes=(f"summary|{region}|{rule_id}",),
        order=memory.order + 1,
        due_at=memory.time.at,
        promise=channel.promise,
    )
    named = [structs.replace(member, message=message.message_id) for member in members]
    return memory.remember_all([message, *named])


def _summary_numbers(members: Sequence[DeliveryDecision]) -> dict[str, Any]:
    """The number of alerts, their stores, and the most severe of them."""
    alerts = [member.alert for member in members]
    ranked = sorted(alerts, key=lambda alert: (-severity_rank(alert.severity), alert.raised_at))
    # The stores of the most severe alerts come first, because a long list is cut.
    stores = [*dict.fromkeys(alert.store_id for alert in ranked)]
    shown = _take_fitting(stores, _STORE_BYTES)
    fields = ("alert_id", "store_id", "severity", "state", "raised_at")
    lines = [{name: getattr(alert, name) for name in fields} for alert in ranked]
    return {
        "alerts": len(alerts),
        "severities": dict(sorted(Counter(alert.severity for alert in alerts).items())),
        "most_severe": _take_fitting(lines, _LINE_BYTES),
        "stores": shown,
        "more_stores": len(stores) - len(shown),
        "link": "/v1/alerts",
    }


def _take_fitting(listed: Sequence[Listed], most_bytes: int) -> list[Listed]:
    """The first values that together fit into `most_bytes` bytes of JSON."""
    sizes = accumulate(json_size(value) + 1 for value in listed)
    fitting = takewhile(lambda size: size <= most_bytes, sizes)
    return [value for value, _ in zip(listed, fitting, strict=False)]
