"""The world of alerts as a whole: what must hold of each message, and at the end of all of them.

Whatever dies, is fenced, comes late, twice or never: each (alert, state) is told once and in order,
and in the end the alerts that stand are the episodes over all that was sent, one to one.
"""

from collections import defaultdict
from collections.abc import Sequence

from alerting.alert.published import PublishedAlert
from alerting.episodes.alert_diff import Transition
from alerting.rules.rule import Rule
from tests.laws.alerting.worlds.alert_brokers import WorldTransaction
from tests.laws.alerting.worlds.alert_evaluation import (
    BUSY,
    RULES,
    SILENT,
    chain_of,
    number,
    version,
)
from tests.laws.alerting.worlds.alert_evaluators import Evaluators
from tests.laws.alerting.worlds.alert_shop import (
    DAY,
    STORES,
    UNPUBLISHED,
    WINDOWS,
    Broken,
    Row,
    must,
)

# How often each happens: most of what happens is small steps.
ACTIONS = [
    name
    for name, times in {
        "sell": 6,
        "read": 7,
        "hint": 6,
        "pass_time": 2,
        "probe": 4,
        "tick": 7,
        "pin": 4,
        "flip": 5,
        "erase": 1,
        "change": 1,
        "crash": 1,
        "expel": 1,
        "time_out": 3,
        "step": 22,
        "work": 26,
        "arrive": 12,
    }.items()
    for _ in range(times)
]
# Which states an alert may have been told in last, before each; "" for none.
BEFORE = {
    "provisional": ("",),
    "confirmed": ("", "provisional"),
    "retracted": ("provisional", "confirmed"),
}
MAX_TURNS = 900


class World(Evaluators):
    """Evaluators, and one who listens to all that counts."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: dict[str, list[str]] = defaultdict(list)
        self.last: dict[str, PublishedAlert] = {}

    def committed(self, transaction: WorldTransaction) -> None:
        """Its messages are heard, and each looked at."""
        for one in transaction.sent:
            self._look_at(one.alert)
            self.heard[one.alert.alert_id].append(one.alert.state)
            self.last[one.alert.alert_id] = one.alert
            self._count(one)

    def _count(self, one: Transition) -> None:
        self.fired[f"{one.alert.edge} {one.alert.state}"] += 1
        self.fired["second occurrence"] += one.alert.occurrence > 1
        self.fired["merged"] += one.reason == "merged"
        self.fired["late"] += one.alert.late

    def _look_at(self, one: PublishedAlert) -> None:
        before = self.heard[one.alert_id]
        must(one.state not in before, f"twice: {one.state} after {before}: {one}")
        last = before[-1] if before else ""
        must(last in BEFORE[one.state], f"out of order: {one.state} after {last}: {one}")
        must(
            one.state == "provisional" or self._is_covered(one),
            f"{one.state} without a generation: {one}",
        )
        must(not self._is_false_silence(one), f"silence where all had come in time: {one}")
        in_force = version(one.chain.rule_id, self.edit, number(one.window))
        must(
            one.edge == "clear" or one.version == in_force,
            f"judged by version {one.version} where {in_force} is in force: {one}",
        )

    def _is_covered(self, one: PublishedAlert) -> bool:
        """By a generation, the day up to its window; an end also by what has settled its raise."""
        raised = None if one.of is None else self.last.get(one.of)
        if one.state == "retracted" and raised is not None and raised.state == "retracted":
            return True
        window = number(one.window)
        covered = self.pointers.get(window // DAY, UNPUBLISHED).covered
        return window < covered

    def _is_false_silence(self, one: PublishedAlert) -> bool:
        if (one.chain.rule_id, one.edge, one.state) != (SILENT.rule_id, "raise", "provisional"):
            return False
        window = number(one.window)
        log = self.logs[int(one.chain.store_id)]
        return any(receipt.window == window == receipt.arrived for receipt in log)

    # The end.

    def finish(self) -> None:
        """Faults stop; a last generation covers all, and notices name what it changed.

        Raises Broken.
        """
        self._let_all_arrive()
        self.settle()
        self.tick(0)
        # Read by the step, and published before its commit: it has evaluated the generation before.
        for process in self.processes:
            if process.phase == "running":
                self.step(process.number + 3)
        self.rebuilds = []
        self.pin(3)
        self.flip(0)
        self.settle()
        self.hints, self.owed = self.owed, []
        self._deliver_hints()
        self.tick(0)
        self.settle()
        for store in STORES:
            for rule in RULES:
                self._compare(rule, store)

    def _let_all_arrive(self) -> None:
        self.now = WINDOWS
        while any(self.speed_at[store] < len(self.logs[store]) for store in STORES):
            self.read(4)
            self.read(5)
        self._deliver_hints()
        self.probe(0)
        self.tick(0)

    def _deliver_hints(self) -> None:
        while self.hints:
            self.hint(64)

    def settle(self) -> None:
        """All inputs are taken, by whoever lives or the third. Raises Broken when they are not."""
        for turn in range(MAX_TURNS):
            self._end_transactions()
            living = [one for one in self.processes if one.phase != "dead"]
            for process in living or self.processes[2:]:
                runs = process.phase == "running"
                self.step(process.number + 3 * (57 + 2 * (turn % 2) if runs else 1))
            dead = [one.number for one in self.processes if one.phase == "dead"]
            if any(member in dead for member in self.members):
                self.rebalance([one for one in self.members if one not in dead])
            taken = all(self.position_of(one) == len(self.inputs[one]) for one in STORES)
            if taken and all(one.phase in ("running", "dead") for one in self.processes):
                return
        raise Broken("stuck: inputs are left, and nobody takes them")

    def _end_transactions(self) -> None:
        owned = [one.transaction for one in self.processes if one.phase in ("produced", "sending")]
        for one in self.transactions:
            one.awaited = set()
            if one.status == "open" and one not in owned:
                one.status = "aborted"

    def _compare(self, rule: Rule, store: int) -> None:
        chain = chain_of(rule, store)
        rows = [self.served(store, window, self.pointers) for window in range(WINDOWS)]
        wanted = self._episodes(rule, [one.row if one else Row() for one in rows])
        standing = [one for one in self.last.values() if one.chain == chain and one.is_unretracted]
        told = f"{chain}: {wanted} over all that was sent, told {standing}"
        must(all(one.state == "confirmed" for one in standing), f"still provisional: {told}")
        left = list(standing)
        for start, ended in wanted:
            end = WINDOWS if ended is None else ended
            raises = [
                one for one in left if one.edge == "raise" and start <= number(one.window) < end
            ]
            ends = [one for one in left if any(one.of == other.alert_id for other in raises)]
            must((len(raises), len(ends)) == (1, ended is not None), f"not one to one: {told}")
            left = [one for one in left if one not in raises + ends]
        must(not left, f"not one to one: {told}")

    def _episodes(self, rule: Rule, rows: Sequence[Row]) -> list[tuple[int, int | None]]:
        """Starts and ends by window, computed another way than by the shipped fold."""
        found: list[tuple[int, int | None]] = []
        window = 0
        raises = [row.amount >= 2 if rule is BUSY else not row.events for row in rows]
        clears = [row.amount <= 0 if rule is BUSY else bool(row.events) for row in rows]
        while window < WINDOWS:
            need = version(rule.rule_id, self.edit, window)
            run = raises[max(0, window + 1 - need) : window + 1]
            after = found[-1][1] if found else 0
            if after is None:
                break
            if len(run) == need and all(run) and window + 1 - need >= after:
                ended = next((one for one in range(window, WINDOWS) if clears[one]), None)
                start = window
                while start > after and raises[start - 1]:
                    start -= 1
                found.append((start, ended))
                window = WINDOWS if ended is None else ended
            window += 1
        return found


def play(data: bytes, world: World) -> World:
    """The world after a history, two bytes an action. Raises Broken."""
    for name, pick in zip(data[::2], data[1::2], strict=False):
        getattr(world, ACTIONS[name % len(ACTIONS)])(pick)
    world.finish()
    return world
