"""Whatever is silenced, lost, refused or killed: a receiver is told each state once and in order,
whoever may have a raise gets its retraction, and nobody gets an end without its raise. Each wrong
rule is found."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from tests.controls.alerts.alert_deliveries import WRONG_DISPATCHERS
from tests.laws.deliveries.delivery_world import (
    DELIVERY_ACTIONS,
    DeliveryAction,
    DispatcherRules,
    play_deliveries,
)
from tests.laws.layers.world import Broken

# Alerts, calls and answers are what happens most.
OFTEN = {"emit": 3, "take": 5, "tick": 3, "deliver": 5, "answer": 6}
WEIGHTED = [name for name, times in OFTEN.items() for _ in range(times)] + [*DELIVERY_ACTIONS]
# Bytes are drawn ten times as fast as lists of actions.
histories = st.binary(min_size=150, max_size=480)
HISTORIES = 2_000
# What each wrong rule makes of a receiver, and in how many histories that is found.
FOUND: dict[str, tuple[str, int]] = {
    "intent=after": ("the retraction does not reach", 400),
    "silence=all": ("the retraction does not reach", 400),
    "doubt=unsent": ("the retraction does not reach", 400),
    "order=any": ("receiver sees", 400),
    "order=alert": ("an end without its raise", 400),
    "ends=alone": ("an end without its raise", 400),
    "webhook=attempt": ("receiver acts twice", 400),
}


# To find is enough: what is smallest is looked for by who has to correct it.
SEARCH = settings(
    max_examples=HISTORIES,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def actions_of(history: bytes) -> list[DeliveryAction]:
    """Three bytes an action."""
    triples = zip(history[::3], history[1::3], history[2::3], strict=False)
    return [(WEIGHTED[what % len(WEIGHTED)], one % 16, other % 24) for what, one, other in triples]


def report(rules: DispatcherRules, history: bytes, fired: Counter[str] | None = None) -> str:
    """What is wrong with the world after a history; "" for nothing."""
    try:
        play_deliveries(rules, actions_of(history), fired)
    except Broken as error:
        return str(error)
    return ""


def test_a_receiver_is_told_what_is_true_once_and_in_order() -> None:
    fired: Counter[str] = Counter()

    @SEARCH
    @given(histories)
    def explore(history: bytes) -> None:
        fired["histories"] += 1
        assert report(DispatcherRules(), history, fired) == ""

    explore()

    assert fired["histories"] >= HISTORIES * 0.9
    reached = (
        *("held", "released", "groups", "answers lost", "refused for good", "aborted"),
        *("crashes", "crashes amid calls", "sent in a silence"),
        *("raise provisional", "raise confirmed", "raise retracted"),
        *("clear provisional", "clear confirmed", "clear retracted"),
    )
    assert {name: fired[name] for name in reached if fired[name] < 20} == {}


@pytest.mark.parametrize("wrong", WRONG_DISPATCHERS)
def test_a_wrong_rule_of_deliveries_is_found(wrong: str) -> None:
    words, times = FOUND[wrong]
    rules = WRONG_DISPATCHERS[wrong]

    try:
        find(
            histories,
            lambda history: report(rules, history).startswith(words),
            settings=settings(SEARCH, max_examples=times),
        )
    except NoSuchExample:
        pytest.fail("no history shows what is wrong with it")
