"""The brokers of the world of alerts: transactions whose end arrives partition by partition, ids
that fence, and a group that gives partitions away."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from alerting.episodes.alert_diff import Transition
from tests.laws.alerting.worlds.alert_evaluation import EvaluatedShop, Memory
from tests.laws.alerting.worlds.alert_shop import STORES

# What a transaction writes to, and where the marker of its end arrives by itself.
PLACES = ("positions", "state", "alerts")


@dataclass(eq=False)
class WorldTransaction:
    """One transaction of one partition: what it sends, and what is remembered once it counts.

    `has_positions`: it carries them by now; `is_timers_own`: it never will. `awaited`: where its
    end has been decided and has not arrived.
    """

    identity: str
    store: int
    sent: list[Transition]
    after: Memory
    is_timers_own: bool
    status: Literal["open", "committed", "aborted"] = "open"
    has_positions: bool = False
    awaited: set[str] = field(default_factory=set)


class Brokers(EvaluatedShop):
    """What lasts when processes die."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions: list[WorldTransaction] = []
        self.epochs: Counter[str] = Counter()
        self.members: list[int] = []
        self.owners: dict[int, int] = {}
        self.group_generation = 0

    # Actions.

    def arrive(self, pick: int) -> None:
        """A marker arrives in one more partition, of two transactions at once."""
        for one in [one for one in self.transactions if one.awaited][:2]:
            one.awaited.discard(sorted(one.awaited)[pick % len(one.awaited)])

    def time_out(self, _pick: int) -> None:
        """A transaction has been open for too long: it is aborted, and whoever began it fenced."""
        for one in [one for one in self.transactions if one.status == "open"][:1]:
            one.status = "aborted"
            self.epochs[one.identity] += 1

    def expel(self, pick: int) -> None:
        """The group hears nothing of a member, which goes on all the same."""
        if self.members:
            silent = self.members[pick % len(self.members)]
            self.rebalance([one for one in self.members if one != silent])

    # What processes ask of them.

    def init_transactions(self, identity: str) -> int:
        """The epoch from now on: whoever had the identity is fenced, and what he left is over."""
        self.epochs[identity] += 1
        for one in [one for one in self.transactions if one.identity == identity]:
            one.status = "aborted" if one.status == "open" else one.status
            one.awaited = set()
        return self.epochs[identity]

    def rebalance(self, members: list[int]) -> None:
        """The partitions are divided anew."""
        self.members = members
        self.group_generation += 1
        self.owners = {store: members[store % len(members)] for store in STORES if members}

    def state_of(self, store: int, to_the_end: bool = True) -> Memory | None:
        """The state that has been committed; None while somebody's end has to be waited for.

        Not to the end: to the last stable offset, behind which there may be more.
        """
        own = [one for one in self.transactions if one.store == store]
        pending = (
            place for place, one in enumerate(own) if one.status == "open" or "state" in one.awaited
        )
        stable = next(pending, len(own))
        if to_the_end and stable < len(own):
            self.fired["restores that wait"] += 1
            return None
        kept = [one.after for one in own[:stable] if one.status == "committed"]
        return kept[-1].copy() if kept else Memory()

    def position_of(self, store: int) -> int | None:
        """The committed position; None while one is pending, as with require_stable."""
        own = [one for one in self.transactions if one.store == store]
        if any(
            (one.status == "open" and one.has_positions) or "positions" in one.awaited
            for one in own
        ):
            return None
        return max((one.after.position for one in own if one.status == "committed"), default=0)
