"""Summaries: one message for alerts that are too many at once, too old, or of a silent region.

Alerts of one channel, region and rule are a group. A group waits until no more alerts join it, is
sent once, names the stores, and shows the most severe alerts. Its id is computed from the ids of
its members, so no other group ever has it.

Silent stores are a crowd when they are more than half of the stores of a region that send anything
of the family. Their number is unknown until the evaluators have judged all partitions, so the first
states of silences wait for that. The stores of a region are in all partitions, and those count
whose deliveries belong to this process. A crowd's alerts wait until a generation confirms them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import accumulate, takewhile
from typing import Any, NamedTuple, TypeAlias, TypeVar

from msgspec import structs

from alerting.deliver.state.body import MAX_BYTES, encode_body, hash_id, json_size
from alerting.deliver.state.controls import severity_rank
from alerting.deliver.state.memory import MINUTE, DeliveryMemory
from alerting.deliver.state.records import DeliveryDecision, StoredDelivery, WebhookMessage
from alerting.deliver.state.routing import DeliveryContext, instant_millis
from tally.time.windows import WINDOW_MILLIS

# A group is sent after WAIT without a new member, and in any case after MAX_WAIT.
WAIT, MAX_WAIT = MINUTE, 10 * MINUTE
# Evaluators judge the partitions one after the other, so related alerts may have ticks that are up
# to JUDGED_AFTER later. Nothing waits longer than MAX_UNJUDGED for a partition without judgements.
MAX_TICK_LAG, MAX_EVALUATION_WAIT = MINUTE // 2, 15 * MINUTE
# Fewer stores are never a crowd.
MIN_SILENT_STORES = 3
# The region of all stores.
EVERYWHERE = "*"
# Limits in bytes for the most severe alerts and the store names in a body.
_LINE_BYTES, _STORE_BYTES = MAX_BYTES // 2, MAX_BYTES // 3
Listed = TypeVar("Listed")
# The memories of this process's desks by partition.
PartitionMemories: TypeAlias = Mapping[int, DeliveryMemory]
# Channel, reason of the group, region and rule.
_GroupKey: TypeAlias = tuple[str, str, str, str]
# Channel, rule, and the number of the window since 1970.
_SilenceKey: TypeAlias = tuple[str, str, int]


class SilentRegions(NamedTuple):
    """Silences that must not be sent yet.

    `regions`: the silent region by the decision's key, "" while only `early` holds the decision
    back; `early`: keys of the decisions whose crowd may still grow.
    """

    regions: Mapping[str, str]
    early: Set[str]


def build_summaries(
    partition: int, around: DeliveryContext, desks: PartitionMemories, crowds: SilentRegions
) -> list[StoredDelivery]:
    """The messages of the groups that wait no longer, and their members, which name them.

    Each partition sends summaries of old and of too many alerts for its own stores; for a silent
    region one partition sends for all. `desks`: those of this process, including the partition's.
    """
    memory = desks[partition]
    grouped: dict[_GroupKey, list[DeliveryDecision]] = defaultdict(list)
    for decision in memory.uncounted.values():
        alert = decision.alert
        region = next(iter(around.store(alert.store_id).regions), EVERYWHERE)
        grouped[decision.channel, decision.why, region, alert.rule_id].append(decision)
    changed: list[StoredDelivery] = []
    for key, members in sorted(grouped.items()):
        if _is_complete([member.at for member in members], memory.time.at):
            changed += _summarise_group(memory, partition, key, members)
    return changed + _summarise_regions(partition, desks, crowds)


def find_silent_regions(around: DeliveryContext, desks: PartitionMemories) -> SilentRegions:
    """The waiting silences of all partitions, which no generation has confirmed.

    Silences that a generation has confirmed are sent, for any number of stores.
    """
    silent = [
        (memory, silence) for memory in desks.values() for silence in find_open_silences(memory)
    ]
    if not silent:
        return SilentRegions({}, set())
    crowd = _RegionFinder([silence for _, silence in silent], around, desks)
    early = {
        decision.key for memory, decision in silent if crowd.is_early(decision, memory.time.at)
    }
    # A counted decision keeps its region, even if the others have been confirmed or retracted.
    regions = {silence.key: silence.crowd or crowd.find_region(silence) for _, silence in silent}
    waiting = {key: region for key, region in regions.items() if region or key in early}
    return SilentRegions(waiting, early)


def find_open_silences(memory: DeliveryMemory) -> Iterator[DeliveryDecision]:
    """The first decisions about silences that no generation has settled."""
    for channel, alert_id in memory.held:
        decisions = memory.decisions_for(channel, alert_id)
        if decisions[0].why == "many silent" and decisions[-1].alert.state == "provisional":
            yield decisions[0]


def _is_complete(decided: Sequence[int], now: int) -> bool:
    return now >= min(max(decided) + WAIT, min(decided) + MAX_WAIT)


def _summarise_regions(
    partition: int, desks: PartitionMemories, crowds: SilentRegions
) -> list[StoredDelivery]:
    grouped: dict[_GroupKey, list[DeliveryDecision]] = defaultdict(list)
    for silence in (
        decision for memory in desks.values() for decision in find_open_silences(memory)
    ):
        if region := crowds.regions.get(silence.key):
            grouped[silence.channel, silence.why, region, silence.alert.rule_id].append(silence)
    changed: list[StoredDelivery] = []
    for key, members in sorted(grouped.items()):
        changed += _summarise_region(partition, desks, crowds, (key, members))
    return changed


def _summarise_region(
    partition: int,
    desks: PartitionMemories,
    crowds: SilentRegions,
    group: tuple[_GroupKey, Sequence[DeliveryDecision]],
) -> list[StoredDelivery]:
    """The message of a silent region, if this partition sends it, and its counted decisions."""
    (key, members), memory = group, desks[partition]
    own = {silence.key for silence in find_open_silences(memory)}
    mine = [member for member in members if member.key in own]
    region = key[2]
    # The region's message is sent once: later members of the crowd only refer to it.
    if known := sorted(member.message for member in members if member.crowd):
        joining = (member for member in mine if not member.crowd)
        return [structs.replace(member, message=known[0], crowd=region) for member in joining]
    # The first partition without a need to wait for further stores sends the message for all.
    if all(member.key in crowds.early for member in mine):
        return []
    message = _summarise_group(memory, partition, key, members)[0]
    assert isinstance(message, WebhookMessage)
    named = [structs.replace(member, message=message.message_id, crowd=region) for member in mine]
    return [message, *named]


class _RegionFinder:
    """The silent stores by channel, rule and window."""

    def __init__(
        self, silent: Iterable[DeliveryDecision], around: DeliveryContext, desks: PartitionMemories
    ) -> None:
        self._context = around
        # A partition without a tick does not belong to this process yet, so it is left out.
        self._partitions = frozenset(number for number, memory in desks.items() if memory.time.n)
        self._evaluation_progress = around.evaluation_progress(self._partitions)
        self._stores: dict[_SilenceKey, set[str]] = defaultdict(set)
        self._known: dict[tuple[_SilenceKey, str, str], bool] = {}
        for silence in silent:
            self._stores[_silence_key(silence)].add(silence.alert.store_id)

    def is_early(self, silence: DeliveryDecision, now: int) -> bool:
        """Whether others may still join: not every partition is judged as far as this one was."""
        wanted = instant_millis(silence.alert.raised_at) + MAX_TICK_LAG
        return self._evaluation_progress < wanted and now < silence.at + MAX_EVALUATION_WAIT

    def find_region(self, silence: DeliveryDecision) -> str:
        """The first silent region of the decision's store; "" for none."""
        regions = (*self._context.store(silence.alert.store_id).regions, EVERYWHERE)
        place, family = _silence_key(silence), silence.alert.metric
        return next((name for name in regions if self._is_silent_region(place, family, name)), "")

    def _is_silent_region(self, place: _SilenceKey, family: str, region: str) -> bool:
        if (place, family, region) not in self._known:
            self._known[place, family, region] = self._count_silent_region(place, family, region)
        return self._known[place, family, region]

    def _count_silent_region(self, place: _SilenceKey, family: str, region: str) -> bool:
        channel, rule, window = place
        near = {
            store_id
            # A line that goes down within a window causes silence in that window or in the next.
            for near_window in (window - 1, window, window + 1)
            for store_id in self._stores.get((channel, rule, near_window), ())
            if region == EVERYWHERE or region in self._context.store(store_id).regions
        }
        if len(near) < MIN_SILENT_STORES:
            return False
        return 2 * len(near) > self._context.count_peers(family, region, self._partitions)


def _silence_key(silence: DeliveryDecision) -> _SilenceKey:
    # The window counts and not the tick, because an evaluator's tick says nothing about a store.
    window = instant_millis(silence.alert.window.end) // WINDOW_MILLIS
    return silence.channel, silence.alert.rule_id, window


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
    # Remembered at once, so that the next group of the same tick has a higher order.
    memory.remember(message)
    return [message, *(structs.replace(member, message=message.message_id) for member in members)]


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
