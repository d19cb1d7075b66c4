"""A pass that goes on over several transactions tells what one at once does, whatever comes in the
middle of it, also when its process dies there."""

from collections.abc import Callable, Sequence

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from alerting.evaluate.state.memory import STATE_TOPIC
from alerting.evaluate.step import ALERTS, TICKS, UPDATES, Evaluator
from runtime.processor.step import Input, Output
from runtime.registry.sources import SALES
from serving.storage.tables import Activity
from tally.alerts.message import Alert, decode_alert
from tally.alerts.tick import SpeedEpoch, Tick
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tally.time.instants import format_utc, from_millis, to_millis
from tally.time.windows import WINDOW_MILLIS
from tests.controls.processes.hasty_evaluator import HastyEvaluator
from tests.support.evaluation.evaluating import BUSY, DAY, SILENT, ListedRules, in_force
from tests.support.serving.serving_world import PARTITIONS, MemoryViews, World, at, flip, sale

STORES = [str(one) for one in range(1_000) if partition_number(str(one), PARTITIONS) == 1][:3]
FIRST, WINDOWS = to_millis(at(f"{DAY}T08:00")), 10
RULES = ListedRules(in_force(BUSY, f"{DAY}T08:00"), in_force(SILENT, f"{DAY}T08:00"))
SETTINGS = Settings(default_timezone="Europe/Rome")
# What each transaction has, and how many of them come before the next.
windows = st.integers(0, WINDOWS - 1)
sold = st.tuples(st.just("sold"), st.sampled_from(STORES), windows, st.integers(1, 8))
ticked = st.tuples(st.just("ticked"), st.just(""), windows, st.just(0))
turned = st.tuples(st.sampled_from(["turned", "dies"]), st.just(""), st.just(0), st.just(0))
histories = st.lists(st.one_of(sold, ticked, turned), min_size=4, max_size=25)
Deed = tuple[str, str, int, int]


class LittleAtATime(Evaluator):
    """One store in each transaction."""

    most_seconds = -1.0


class Shops:
    """Three stores of one partition, and who evaluates them."""

    def __init__(self, make: Callable[..., Evaluator]) -> None:
        self.world, self.make = World(), make
        days = at("2026-11-20T00:00").date(), at(f"{DAY}T00:00").date()
        self.world.activity += [(SALES, Activity(one, *days)) for one in STORES]
        self.views = MemoryViews(self.world)
        self.evaluator = make(SETTINGS, self.views, RULES)
        self.state: list[Input] = []
        self.alerts: list[Alert] = []
        self.number = 0
        # Records that the loop keeps back while their partition is held.
        self.waiting: list[Input] = []
        # Those that it has taken, and whose positions it has not: they come again.
        self.uncommitted: list[Input] = []

    def does(self, what: str, store_id: str, window: int, events: int) -> None:
        """One deed of a history; those that bring no record let a transaction pass."""
        if what == "sold":
            self._sell(store_id, window, events)
        elif what == "ticked":
            self.tick(FIRST + (window + 1) * WINDOW_MILLIS + 61_000)
        elif what == "dies":
            self._begin_again()
        self.turn()

    def tick(self, now: int, flips: int = 0) -> None:
        """A tick has come; all was read through then."""
        self.number += 1
        tick = Tick(
            n=self.number,
            at=now,
            through={SALES.name: now},
            epoch={SALES.name: SpeedEpoch(SALES.epoch)},
            flips={SALES.name: flips},
            rules_until=1,
        )
        self.waiting.append(Input(TICKS, 1, 0, 0, None, tick.value))

    def turn(self) -> None:
        """One transaction is stored."""
        while self.waiting and 1 not in self.evaluator.busy_partitions:
            record = self.waiting.pop(0)
            self.evaluator.process(record)
            self.uncommitted.append(record)
        for one in self.evaluator.before_commit():
            self._keep(one)
        if 1 not in self.evaluator.busy_partitions:
            self.uncommitted.clear()

    def rest(self) -> None:
        """As many as it takes, at the end of all windows."""
        self.tick(FIRST + WINDOWS * WINDOW_MILLIS + 61_000)
        for _ in range(8 * len(STORES)):
            self.turn()

    def rebuild(self) -> None:
        """A generation has all windows as they are."""
        rows = [(one.store_id, one.row) for one in self.world.rows]
        for store_id, row in rows:
            text = f"{row.window_start:%Y-%m-%dT%H:%M}"
            self.world.rows.append(sale(store_id, text, row.events, 100, generation=1))
        end = from_millis(FIRST + WINDOWS * WINDOW_MILLIS)
        until = f"{end:%Y-%m-%dT%H:%M}"
        self.world.pointers.append((SALES, flip(DAY, 1, until, 0, covered_until=until)))
        self.tick(FIRST + WINDOWS * WINDOW_MILLIS + 62_000, flips=1)

    def standing(self) -> list[tuple[str, ...]]:
        """What was told last of each alert that stands, but for when."""
        last = {one.alert_id: one for one in self.alerts}
        return sorted(
            (one.rule_id, one.store_id, one.edge, one.state, one.episode.start)
            for one in last.values()
            if one.state != "retracted"
        )

    def _sell(self, store_id: str, window: int, events: int) -> None:
        start = from_millis(FIRST + window * WINDOW_MILLIS)
        text = f"{start:%Y-%m-%dT%H:%M}"
        same = [
            one
            for one in self.world.rows
            if (one.store_id, one.row.window_start) == (store_id, start)
        ]
        for one in same:
            # A row only grows.
            self.world.rows.remove(one)
            events += one.row.events
        self.world.rows.append(sale(store_id, text, events, 100))
        told = {"family": "sales", "store_id": store_id, "window_start": format_utc(start)}
        self.waiting.append(Input(UPDATES, 1, 0, 0, None, msgspec.json.encode(told)))

    def _begin_again(self) -> None:
        self.evaluator.close()
        self.evaluator = self.make(SETTINGS, self.views, RULES)
        self.evaluator.restore(self.state)
        self.waiting = [*self.uncommitted, *self.waiting]
        self.uncommitted = []

    def _keep(self, one: Output) -> None:
        if one.topic == ALERTS:
            self.alerts.append(decode_alert(one.value or b""))
        else:
            assert one.topic == STATE_TOPIC
            self.state.append(Input(one.topic, 1, 0, 0, one.key, one.value))


def told_by(make: Callable[..., Evaluator], history: Sequence[Deed], *, rebuilt: bool) -> Shops:
    """The shops at the end of a history, all that has come evaluated; each state told once."""
    shops = Shops(make)
    try:
        for deed in history:
            shops.does(*deed)
        shops.rest()
        if rebuilt:
            # What is told before hangs on what had come when it was evaluated.
            shops.rebuild()
            shops.rest()
    finally:
        shops.evaluator.close()
    told = [(one.alert_id, one.state) for one in shops.alerts]
    assert len({*told}) == len(told)
    return shops


@settings(max_examples=60, deadline=None)
@given(histories)
def test_evaluated_little_by_little_the_same_is_told(history: list[Deed]) -> None:
    at_once = told_by(Evaluator, history, rebuilt=True)
    by_little = told_by(LittleAtATime, history, rebuilt=True)

    assert by_little.standing() == at_once.standing()


def test_who_takes_in_what_comes_in_the_middle_is_found() -> None:
    # Behind the last window no day is evaluated again, so that nothing makes it good.
    middle: list[Deed] = [
        ("ticked", "", WINDOWS - 1, 0),
        ("sold", STORES[0], 2, 8),
        *[("turned", "", 0, 0)] * 6,
    ]

    at_once = told_by(Evaluator, middle, rebuilt=False).standing()

    assert told_by(LittleAtATime, middle, rebuilt=False).standing() == at_once
    assert told_by(HastyEvaluator, middle, rebuilt=False).standing() != at_once
