"""Rules that wait for each other: each is evaluated once a store and day, whoever waits for it."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerting.evaluate.scope.rule_set import VersionedRule
from alerting.evaluate.verdicts.verdicts import Verdicts
from alerting.rules.rule import Rule, Threshold
from tests.support.evaluation.evaluating import DAY, ListedRules, Watched, in_force, sold
from tests.support.evaluation.simulating import clock_of, served, simulated
from tests.support.stack.nominal_processor import lowest_ratio

HOURS = [f"{hour:02d}:{minute:02d}" for hour in (8, 9) for minute in (0, 15, 30, 45)]
RULES, RUNS = 30, 9


def ladder(count: int, *, waits: bool) -> list[Rule]:
    """So many rules, each of which waits for all behind it, or none for any."""
    names = [f"r{number:03}" for number in range(count)]
    return [
        Rule(
            rule_id=name,
            metric="transactions",
            condition=Threshold(">=", Decimal(5 + number)),
            unless=tuple(names[number + 1 :]) if waits else (),
        )
        for number, name in enumerate(names)
    ]


def busy_store(rules: Sequence[Rule]) -> Watched:
    """A store that has sold and is not evaluated yet."""
    store = Watched(ListedRules(*(in_force(one, f"{DAY}T08:00") for one in rules)))
    store.sends("2026-11-20")
    store.tick(f"{DAY}T07:50")
    for number, start in enumerate(HOURS):
        sold(store, start, 3 + number)
    return store


def seconds(count: int, *, waits: bool) -> float:
    """Of the processor, to evaluate two hours of one store, and then the same once more."""
    with closing(busy_store(ladder(count, waits=waits))) as store:
        began = time.process_time()
        store.tick(f"{DAY}T10:01")
        store.hint(f"{DAY}T09:45")
        return time.process_time() - began


def folds_of(count: int, monkeypatch: pytest.MonkeyPatch, *, waits: bool) -> Counter[str]:
    """By rule how many times its verdicts on a day are asked for while two hours are evaluated."""
    asked: Counter[str] = Counter()
    real = Verdicts.ranges

    def counting(self: Verdicts, rule: VersionedRule, *more: Any) -> Any:
        asked[rule.rule_id] += 1
        return real(self, rule, *more)

    with monkeypatch.context() as patched, closing(busy_store(ladder(count, waits=waits))) as store:
        patched.setattr(Verdicts, "ranges", counting)
        store.tick(f"{DAY}T10:01")
    return asked


def test_each_rule_is_folded_once_more_however_many_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, waiting = (folds_of(12, monkeypatch, waits=one) for one in (False, True))

    # Of the others nothing reaches the condition: they are not folded at all.
    assert waiting.keys() == plain.keys() == {f"r{number:03}" for number in range(6)}
    assert max(waiting.values()) <= max(plain.values()) + 1


def test_thirty_rules_that_wait_for_each_other_cost_half_as_much_again_at_most() -> None:
    # The least of several: what else runs on the machine only adds.
    def least(*, waits: bool) -> float:
        return min(seconds(RULES, waits=waits) for _ in range(RUNS))

    found = lowest_ratio(lambda: least(waits=True), lambda: least(waits=False), 1.5)

    assert found < 1.5


def test_a_chain_of_rules_may_be_as_long_as_anybody_likes() -> None:
    rules = ladder(1_500, waits=False)
    chained = [replace(one, unless=(other.rule_id,)) for one, other in pairwise(rules)]
    with closing(busy_store([*chained, rules[-1]])) as store:
        store.tick(f"{DAY}T10:01")

        # Each before the one that it waits for; what is sold reaches no bar behind these.
        expected = {(f"r{number:03}", HOURS[number + 2]) for number in range(6)}
        assert told_raises(store) == expected


# Who waits for whom: the number of a rule, and of those behind it.
GRAPHS = st.lists(st.sets(st.integers(0, 4)), min_size=1, max_size=5)
NUMBERS = st.lists(st.integers(0, 9), min_size=len(HOURS), max_size=len(HOURS))
BORDERS = st.lists(st.integers(1, 9), min_size=5, max_size=5)


def rules_of(graph: Sequence[set[int]], borders: Sequence[int]) -> list[Rule]:
    return [
        Rule(
            rule_id=f"r{number}",
            metric="transactions",
            condition=Threshold(">=", Decimal(borders[number])),
            unless=tuple(f"r{other}" for other in sorted(behind) if number < other < len(graph)),
        )
        for number, behind in enumerate(graph)
    ]


def naive_raises(rules: Sequence[Rule], numbers: Sequence[int]) -> set[tuple[str, str]]:
    """Rule and quarter hour of each raise, by a walk from rule to rule and from hour to hour."""
    by_id = {one.rule_id: one for one in rules}

    def is_high(rule: Rule, place: int) -> bool:
        assert isinstance(rule.condition, Threshold)
        return numbers[place] >= rule.condition.value

    def is_open(rule: Rule, place: int) -> bool:
        """Whether an episode of the rule contains the quarter hour."""
        if place < 0:
            return False
        if not numbers[place] or any(is_open(by_id[one], place) for one in rule.unless):
            # Nothing has come, or it is held back: what is open stays so.
            return is_open(rule, place - 1)
        return is_high(rule, place)

    return {
        (rule.rule_id, HOURS[place])
        for rule in rules
        for place in range(len(HOURS))
        if is_open(rule, place) and not is_open(rule, place - 1)
    }


def told_raises(store: Watched) -> set[tuple[str, str]]:
    return {(one.rule_id, one.window.start[11:16]) for one in store.alerts if one.edge == "raise"}


@given(GRAPHS, BORDERS, NUMBERS)
def test_small_ladders_are_evaluated_as_by_a_walk_from_rule_to_rule(
    graph: list[set[int]], borders: list[int], numbers: list[int]
) -> None:
    rules = rules_of(graph, borders)
    with closing(busy_store([])) as store:
        store.rules = ListedRules(*(in_force(one, f"{DAY}T08:00") for one in rules))
        store.begin_again()
        store.world.rows.clear()
        for start, number in zip(HOURS, numbers, strict=True):
            if number:
                sold(store, start, number)
        store.tick(f"{DAY}T10:01")

        assert told_raises(store) == naive_raises(rules, numbers)


@settings(max_examples=30)
@given(GRAPHS, BORDERS, NUMBERS.filter(all))
def test_small_ladders_are_simulated_as_by_a_walk_from_rule_to_rule(
    graph: list[set[int]], borders: list[int], numbers: list[int]
) -> None:
    rules = rules_of(graph, borders)
    versions = (in_force(one, "2026-11-20T08:00") for one in rules)
    with closing(Watched(ListedRules(*versions))) as store:
        store.sends("2026-11-20")
        for start, number in zip(HOURS, numbers, strict=True):
            sold(store, start, number, generation=1)
        served(store, "12:00")
        expected = naive_raises(rules, numbers)

        compared = 0
        for rule in rules:
            [found] = simulated(store, rule.rule_id, f"{DAY}T08:00", f"{DAY}T10:00").stores
            begins = {clock_of(one.episode.raised) for one in found.episodes}
            assert begins == {start for name, start in expected if name == rule.rule_id}
            compared += 1

    assert compared == len(rules)


def test_the_walk_finds_a_rule_that_does_not_wait() -> None:
    rules = rules_of([{1}, set()], [2, 5])
    numbers = [6, 6, 3, 1, 1, 1, 1, 1]

    assert naive_raises(rules, numbers) == {("r1", "08:00"), ("r0", "08:30")}
    assert naive_raises(rules_of([set(), set()], [2, 5]), numbers) == {
        ("r0", "08:00"),
        ("r1", "08:00"),
    }


def simulated_days(count: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many verdicts on days a simulation of the first rule of a chain asks for."""
    asked = 0
    real: Callable[..., Any] = Verdicts._evaluate_day

    def counting(self: Verdicts, *more: Any) -> Any:
        nonlocal asked
        asked += 1
        return real(self, *more)

    # Each waits for the one behind it, and none is ever at rest for sure.
    rules = [
        Rule(
            rule_id=f"r{number}",
            metric="transactions",
            condition=Threshold(">=", Decimal(1)),
            clear=Threshold("<=", Decimal(-1)),
            unless=(f"r{number + 1}",) if number + 1 < count else (),
        )
        for number in range(count)
    ]
    listed = ListedRules(*(in_force(one, "2026-01-01T00:00") for one in rules))
    with closing(Watched(listed)) as store, monkeypatch.context() as patched:
        store.sends("2026-01-01")
        sold(store, "08:00", 3, generation=1)
        served(store, "10:00")
        patched.setattr(Verdicts, "_evaluate_day", counting)
        simulated(store, "r0", f"{DAY}T08:00", f"{DAY}T09:00")
    return asked


def test_a_simulation_of_a_chain_grows_with_its_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    # Even numbers of rules: every other rule is kept from raising, and asks for less.
    two, four, eight = (simulated_days(count, monkeypatch) for count in (2, 4, 8))

    assert two > 0
    assert eight - four <= 2.5 * (four - two), (two, four, eight)
