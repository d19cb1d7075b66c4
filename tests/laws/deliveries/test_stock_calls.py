"""Whatever is lost, late, refused or killed: each mode of the stock adapter keeps what it promises,
and no more is promised than it keeps. Each wrong rule is found."""

from collections import Counter
from typing import get_args

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from inventory.sync.calls import CallMode
from inventory.sync.modes import CallRules
from tests.controls.processes.stock_calls import WRONG_ADAPTERS
from tests.laws.deliveries.call_world import CALL_ACTIONS, AdapterRules, CallAction, play_calls
from tests.laws.layers.world import Broken

OFTEN = {"sell": 2, "tick": 4, "call": 6, "answer": 6}
WEIGHTED = [name for name, times in OFTEN.items() for _ in range(times)] + [*CALL_ACTIONS]
HISTORIES = 2_000
histories = st.binary(min_size=60, max_size=240)
MODES: dict[CallMode, AdapterRules] = {
    mode: AdapterRules(
        # Nothing is given up for its time alone: what is promised is promised until then.
        CallRules(mode, gives_up_after=10**15),
        others_write=mode in ("compare_and_set", "idempotency_key"),
    )
    for mode in get_args(CallMode)
}
# What each wrong rule makes of a level or of a movement.
FOUND = {
    "stock=rekey": "idempotency_key: applied",
    "stock=reread": "compare_and_set: applied",
    "intent=after": "compare_and_set: applied",
    "reference=first": "compare_and_set: applied",
    "nights=none": "absolute: ",
}
SEARCH = settings(
    max_examples=HISTORIES,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def actions_of(history: bytes) -> list[CallAction]:
    """Three bytes an action."""
    triples = zip(history[::3], history[1::3], history[2::3], strict=False)
    return [(WEIGHTED[what % len(WEIGHTED)], one % 16, other % 24) for what, one, other in triples]


def report(rules: AdapterRules, history: bytes, fired: Counter[str] | None = None) -> str:
    """What is wrong with the world after a history; "" for nothing."""
    try:
        play_calls(rules, actions_of(history), fired)
    except Broken as error:
        return str(error)
    return ""


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_keeps_what_it_promises(mode: CallMode) -> None:
    fired: Counter[str] = Counter()

    @SEARCH
    @given(histories)
    def explore(history: bytes) -> None:
        fired["histories"] += 1
        assert report(MODES[mode], history, fired) == ""

    explore()

    assert fired["histories"] >= HISTORIES * 0.9
    reached = ["answers lost", "came late", "crashes amid calls", f"{mode} applied"]
    reached += ["others wrote"] if MODES[mode].others_write else []
    assert {name: fired[name] for name in reached if fired[name] < 20} == {}


@pytest.mark.parametrize("wrong", WRONG_ADAPTERS)
def test_a_wrong_rule_of_calls_is_found(wrong: str) -> None:
    rules, words = WRONG_ADAPTERS[wrong], FOUND[wrong]

    try:
        find(
            histories,
            lambda history: report(rules, history).startswith(words),
            settings=settings(SEARCH, max_examples=4_000),
        )
    except NoSuchExample:
        pytest.fail("no history shows what is wrong with it")
