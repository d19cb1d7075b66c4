"""Silences of many stores at once: a wrong tick, or a line that is down, and not so many stores.

What says that a store is silent waits for two ticks. If more than half of the stores of a region
that send anything of the family have said so by then, they are told of as one, and each of them
waits for a generation to speak. Stores of a region lie in all partitions: so all of them count
whose deliveries are this process's.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from tally.alerts.delivery.deciding import Surroundings
from tally.alerts.delivery.memory import DeliveryMemory
from tally.alerts.delivery.records import DeliveryDecision

TICKS = 2
# Of fewer stores more than half is no crowd.
LEAST_STORES = 3
# All stores, as a region of them.
EVERYWHERE = "*"
# By partition.
DeskMemories: TypeAlias = Mapping[int, DeliveryMemory]
# A channel, the family that is silent, and the tick by which it was judged.
_SilentAt: TypeAlias = tuple[str, str, int]


def crowds(around: Surroundings, desks: DeskMemories) -> dict[str, str]:
    """By the decision's key: what is not to go out yet, with its region if that is silent, or "".

    Only what no generation has confirmed: what one has said is told, of however many stores.
    """
    waiting = [(memory, one) for memory in desks.values() for one in silences(memory)]
    together = _Together([one for _, one in waiting], around, desks) if waiting else None
    found: dict[str, str] = {}
    for memory, one in waiting:
        # Counted once it stays so, also when the others have been confirmed or taken back.
        region = one.crowd or (together.region_of(one) if together else "")
        if region or is_early(memory, one):
            found[one.key] = region
    return found


def silences(memory: DeliveryMemory) -> Iterator[DeliveryDecision]:
    """The first decisions about silences that no generation has spoken of."""
    for channel, alert_id in memory.held:
        told = memory.told(channel, alert_id)
        if told[0].why == "many silent" and told[-1].alert.state == "provisional":
            yield told[0]


def is_early(memory: DeliveryMemory, one: DeliveryDecision) -> bool:
    """Whether others may still join it."""
    return memory.time.n <= one.tick + TICKS


class _Together:
    """The stores that are silent, by channel, family and tick."""

    def __init__(
        self, silent: list[DeliveryDecision], around: Surroundings, desks: DeskMemories
    ) -> None:
        self._around = around
        # A partition without a tick is not ours, or not yet: of it nothing would be counted.
        self._partitions = frozenset(number for number, one in desks.items() if one.time.n)
        self._stores: dict[_SilentAt, set[str]] = defaultdict(set)
        self._known: dict[tuple[_SilentAt, str], bool] = {}
        for one in silent:
            self._stores[_place(one)].add(one.alert.store_id)

    def region_of(self, one: DeliveryDecision) -> str:
        """The first region of the decision's store that is silent; "" for none."""
        regions = (*self._around.store(one.alert.store_id).regions, EVERYWHERE)
        return next((name for name in regions if self._is_crowd(_place(one), name)), "")

    def _is_crowd(self, place: _SilentAt, region: str) -> bool:
        if (place, region) not in self._known:
            self._known[place, region] = self._counted(place, region)
        return self._known[place, region]

    def _counted(self, place: _SilentAt, region: str) -> bool:
        channel, family, tick = place
        near = {
            store_id
            for other in range(tick - TICKS, tick + TICKS + 1)
            for store_id in self._stores.get((channel, family, other), ())
            if region == EVERYWHERE or region in self._around.store(store_id).regions
        }
        if len(near) < LEAST_STORES:
            return False
        return 2 * len(near) > self._around.peers(family, region, self._partitions)


def _place(one: DeliveryDecision) -> _SilentAt:
    # By the evaluator's tick: when the dispatcher has come to it says nothing of the stores.
    return one.channel, one.alert.metric, one.alert.evidence.tick
