"""Alerts of which one message tells instead of one each: too many at once, too old, or a region
whose stores have all fallen silent.

One rule for all of them: alerts of one channel, region and rule are a group. It waits until no more
of them come, is told once, names the stores, and shows the most severe alerts. Its id is made of
the ids of its members, so no other group ever has it.

Silent stores are a crowd when they are more than half of those of a region that send anything of
the family. Until the evaluators have judged all partitions nobody knows how many there are, so
the first states of silences wait for that. The stores of a region lie in all partitions: all of
them count whose deliveries are this process's. A crowd's alerts wait for a generation to speak.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import accumulate, takewhile
from typing import Any, NamedTuple, TypeAlias, TypeVar

from msgspec import structs

from tally.alerts.delivery.body import MOST_BYTES, body_text, encoded_size, hashed_id
from tally.alerts.delivery.controls import severity_rank
from tally.alerts.delivery.deciding import Surroundings, millis_of
from tally.alerts.delivery.memory import MINUTE, DeliveryMemory
from tally.alerts.delivery.records import DeliveryDecision, KeptDelivery, WebhookMessage
from tally.windows import WINDOW_MILLIS

# A group is told when for so long nothing has joined it, and in any case after so long.
WAIT, MOST_WAIT = MINUTE, 10 * MINUTE
# Evaluators judge the partitions one after the other: an alert's companions have ticks up to so
# much later. A partition that is not judged for longer than the second keeps nobody waiting.
JUDGED_AFTER, MOST_UNJUDGED = MINUTE // 2, 15 * MINUTE
# Of fewer stores more than half is no crowd.
LEAST_STORES = 3
# All stores, as a region of them.
EVERYWHERE = "*"
# Bytes of a body that its most severe alerts, and the names of its stores, may take up.
_LINE_BYTES, _STORE_BYTES = MOST_BYTES // 2, MOST_BYTES // 3
Listed = TypeVar("Listed")
# By partition.
DeskMemories: TypeAlias = Mapping[int, DeliveryMemory]
# Channel, why they are a group, region and rule.
_GroupKey: TypeAlias = tuple[str, str, str, str]
# Channel, rule, and the number of the window since 1970.
_SilentAt: TypeAlias = tuple[str, str, int]


class SilentCrowds(NamedTuple):
    """Silences that are not to go out yet.

    `regions`: by the decision's key the region that is silent, "" while others may still join;
    `early`: keys of those that others may still join.
    """

    regions: Mapping[str, str]
    early: Set[str]


def summaries(
    partition: int, around: Surroundings, desks: DeskMemories, crowds: SilentCrowds
) -> list[KeptDelivery]:
    """The messages of the groups that wait no longer, and their members, which name them.

    What is old or too much each partition tells for its own stores, silent regions one partition
    for all; `desks`: those of this process, that of the partition among them.
    """
    memory = desks[partition]
    grouped: dict[_GroupKey, list[DeliveryDecision]] = defaultdict(list)
    for decision in memory.uncounted.values():
        alert = decision.alert
        region = next(iter(around.store(alert.store_id).regions), EVERYWHERE)
        grouped[decision.channel, decision.why, region, alert.rule_id].append(decision)
    kept: list[KeptDelivery] = []
    for key, members in sorted(grouped.items()):
        if _is_complete([one.at for one in members], memory.time.at):
            kept += _summary(memory, partition, key, members)
    return kept + _silent_regions(partition, desks, crowds)


def silent_crowds(around: Surroundings, desks: DeskMemories) -> SilentCrowds:
    """The silences of all partitions that no generation has confirmed, as far as they wait.

    What a generation has said is told, of however many stores.
    """
    silent = [(memory, one) for memory in desks.values() for one in silences(memory)]
    if not silent:
        return SilentCrowds({}, set())
    crowd = _Crowds([one for _, one in silent], around, desks)
    early = {
        decision.key for memory, decision in silent if crowd.is_early(decision, memory.time.at)
    }
    # Counted once it stays so, also when the others have been confirmed or taken back.
    regions = {one.key: one.crowd or crowd.region_of(one) for _, one in silent}
    waiting = {key: region for key, region in regions.items() if region or key in early}
    return SilentCrowds(waiting, early)


def silences(memory: DeliveryMemory) -> Iterator[DeliveryDecision]:
    """The first decisions about silences that no generation has spoken of."""
    for channel, alert_id in memory.held:
        told = memory.told(channel, alert_id)
        if told[0].why == "many silent" and told[-1].alert.state == "provisional":
            yield told[0]


def _is_complete(decided: Sequence[int], now: int) -> bool:
    return now >= min(max(decided) + WAIT, min(decided) + MOST_WAIT)


def _silent_regions(
    partition: int, desks: DeskMemories, crowds: SilentCrowds
) -> list[KeptDelivery]:
    grouped: dict[_GroupKey, list[DeliveryDecision]] = defaultdict(list)
    for one in (one for memory in desks.values() for one in silences(memory)):
        if region := crowds.regions.get(one.key):
            grouped[one.channel, one.why, region, one.alert.rule_id].append(one)
    kept: list[KeptDelivery] = []
    for key, members in sorted(grouped.items()):
        kept += _region_told(partition, desks, crowds, (key, members))
    return kept


def _region_told(
    partition: int,
    desks: DeskMemories,
    crowds: SilentCrowds,
    group: tuple[_GroupKey, Sequence[DeliveryDecision]],
) -> list[KeptDelivery]:
    """The message of a silent region, if it is this partition's to make; and who is counted."""
    (key, members), memory = group, desks[partition]
    own = {one.key for one in silences(memory)}
    mine = [one for one in members if one.key in own]
    region = key[2]
    # Told once: whoever joins a region that is known to be silent is counted with it.
    if known := sorted(one.message for one in members if one.crowd):
        joining = (one for one in mine if not one.crowd)
        return [structs.replace(one, message=known[0], crowd=region) for one in joining]
    # Whichever partition comes to it speaks for all, when no others are to be waited for.
    if all(one.key in crowds.early for one in mine):
        return []
    message = _summary(memory, partition, key, members)[0]
    assert isinstance(message, WebhookMessage)
    named = [structs.replace(one, message=message.message_id, crowd=region) for one in mine]
    return [message, *named]


class _Crowds:
    """The stores that are silent, by channel, rule and window."""

    def __init__(
        self, silent: Iterable[DeliveryDecision], around: Surroundings, desks: DeskMemories
    ) -> None:
        self._around = around
        # A partition without a tick is not ours, or not yet: of it nothing would be counted.
        self._partitions = frozenset(number for number, one in desks.items() if one.time.n)
        self._judged = around.judged(self._partitions)
        self._stores: dict[_SilentAt, set[str]] = defaultdict(set)
        self._known: dict[tuple[_SilentAt, str, str], bool] = {}
        for one in silent:
            self._stores[_place(one)].add(one.alert.store_id)

    def is_early(self, one: DeliveryDecision, now: int) -> bool:
        """Whether others may still join: not all partitions are judged as far as this one was."""
        wanted = millis_of(one.alert.raised_at) + JUDGED_AFTER
        return self._judged < wanted and now < one.at + MOST_UNJUDGED

    def region_of(self, one: DeliveryDecision) -> str:
        """The first region of the decision's store that is silent; "" for none."""
        regions = (*self._around.store(one.alert.store_id).regions, EVERYWHERE)
        place, family = _place(one), one.alert.metric
        return next((name for name in regions if self._is_crowd(place, family, name)), "")

    def _is_crowd(self, place: _SilentAt, family: str, region: str) -> bool:
        if (place, family, region) not in self._known:
            self._known[place, family, region] = self._counted(place, family, region)
        return self._known[place, family, region]

    def _counted(self, place: _SilentAt, family: str, region: str) -> bool:
        channel, rule, window = place
        near = {
            store_id
            # A line that goes down within a window is silence of that one or of the next.
            for other in (window - 1, window, window + 1)
            for store_id in self._stores.get((channel, rule, other), ())
            if region == EVERYWHERE or region in self._around.store(store_id).regions
        }
        if len(near) < LEAST_STORES:
            return False
        return 2 * len(near) > self._around.peers(family, region, self._partitions)


def _place(one: DeliveryDecision) -> _SilentAt:
    # By the window and not by ticks: which tick an evaluator has come to says nothing of a store.
    window = millis_of(one.alert.window.end) // WINDOW_MILLIS
    return one.channel, one.alert.rule_id, window


def _summary(
    memory: DeliveryMemory, partition: int, key: _GroupKey, members: Sequence[DeliveryDecision]
) -> list[KeptDelivery]:
    """The message of a group, and its members, which name it."""
    channel_id, why, region, rule_id = key
    channel = memory.channels[channel_id]
    instants = [one.alert.raised_at for one in members]
    told = {"why": why, "region": region, "rule_id": rule_id, "partition": partition}
    numbers = {"from": min(instants), "to": max(instants), **_numbers(members)}
    # Of what it tells and of nothing else: two groups never have all members in common.
    names = sorted(one.key for one in members)
    message = WebhookMessage(
        channel=channel_id,
        message_id=hashed_id("grp", *names),
        kind="summary",
        url=channel.url,
        body=body_text("alerts.summary", max(instants), {**told, **numbers}),
        lanes=(f"summary|{region}|{rule_id}",),
        order=memory.order + 1,
        due_at=memory.time.at,
        promise=channel.promise,
    )
    # At once: the next group of the same tick comes behind it.
    memory.remember(message)
    return [message, *(structs.replace(one, message=message.message_id) for one in members)]


def _numbers(members: Sequence[DeliveryDecision]) -> dict[str, Any]:
    """How many there are, which stores, and the most severe of them."""
    alerts = [one.alert for one in members]
    ranked = sorted(alerts, key=lambda alert: (-severity_rank(alert.severity), alert.raised_at))
    # The stores of the most severe first: where there are too many, those are named.
    stores = [*dict.fromkeys(alert.store_id for alert in ranked)]
    shown = _fitting(stores, _STORE_BYTES)
    fields = ("alert_id", "store_id", "severity", "state", "raised_at")
    lines = [{name: getattr(alert, name) for name in fields} for alert in ranked]
    return {
        "alerts": len(alerts),
        "severities": dict(sorted(Counter(alert.severity for alert in alerts).items())),
        "most_severe": _fitting(lines, _LINE_BYTES),
        "stores": shown,
        "more_stores": len(stores) - len(shown),
        "link": "/v1/alerts",
    }


def _fitting(listed: Sequence[Listed], most_bytes: int) -> list[Listed]:
    """The first of these that fit into so many bytes of JSON."""
    sizes = accumulate(encoded_size(value) + 1 for value in listed)
    fitting = takewhile(lambda size: size <= most_bytes, sizes)
    return [value for value, _ in zip(listed, fitting, strict=False)]
