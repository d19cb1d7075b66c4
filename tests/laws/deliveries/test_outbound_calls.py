"""Both senders keep their delivery guarantees under silences, losses, late data and kills.

A receiver of alerts gets each state once and in order; a receiver that may have a raise gets its
retraction, and none gets an end without its raise. Each mode of stock calls has guarantees of its
own (docs/stock-movements.md). Each wrong rule is found.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, get_args

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from inventory.sync.calls import CallMode, CallRules
from tests.controls.alerts.alert_deliveries import WRONG_DISPATCHERS
from tests.controls.processes.stock_calls import WRONG_ADAPTERS
from tests.laws.deliveries.call_world import CALL_ACTIONS, AdapterRules, play_calls
from tests.laws.deliveries.delivery_world import (
    DELIVERY_ACTIONS,
    DispatcherRules,
    play_deliveries,
)
from tests.laws.layers.world import Broken

HISTORIES = 2_000
# A wrong history is enough; no time is spent on making it small.
SEARCH = settings(
    max_examples=HISTORIES,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


class Sender(NamedTuple):
    """How histories of a sender are drawn and played; `weighted` has what happens most often more
    than once. Bytes are drawn ten times as fast as lists of actions."""

    play: Callable[..., object]
    weighted: Sequence[str]
    histories: st.SearchStrategy[bytes]

    def report(self, rules: Any, history: bytes, fired: Counter[str] | None = None) -> str:
        """What is wrong with the world after a history of three bytes an action; "" for nothing."""
        triples = zip(history[::3], history[1::3], history[2::3], strict=False)
        actions = [
            (self.weighted[what % len(self.weighted)], first % 16, second % 24)
            for what, first, second in triples
        ]
        try:
            self.play(rules, actions, fired)
        except Broken as error:
            return str(error)
        return ""


def weight_actions(actions: Sequence[str], often: Mapping[str, int]) -> list[str]:
    return [name for name, times in often.items() for _ in range(times)] + [*actions]


ALERTS = Sender(
    play_deliveries,
    weight_actions(DELIVERY_ACTIONS, {"emit": 3, "take": 5, "tick": 3, "deliver": 5, "answer": 6}),
    st.binary(min_size=150, max_size=480),
)
STOCK = Sender(
    play_calls,
    weight_actions(CALL_ACTIONS, {"sell": 2, "tick": 4, "call": 6, "answer": 6}),
    st.binary(min_size=60, max_size=240),
)


class Promise(NamedTuple):
    """A sender with the right rules, and what has to happen often in its histories."""

    sender: Sender
    rules: Any
    reached: Sequence[str]


def build_promise(mode: CallMode) -> Promise:
    """The promise of a mode of the stock adapter."""
    others_write = mode in ("compare_and_set", "idempotency_key")
    # Nothing is given up for its time alone: what is promised is promised until then.
    rules = AdapterRules(CallRules(mode, gives_up_after=10**15), others_write=others_write)
    reached = ["answers lost", "came late", "crashes amid calls", f"{mode} applied"]
    return Promise(STOCK, rules, reached + ["others wrote"] * others_write)


PROMISES = {mode: build_promise(mode) for mode in get_args(CallMode)} | {
    "alerts": Promise(
        ALERTS,
        DispatcherRules(),
        (
            *("held", "released", "groups", "answers lost", "refused for good", "aborted"),
            *("crashes", "crashes amid calls", "sent in a silence"),
            *("raise provisional", "raise confirmed", "raise retracted"),
            *("clear provisional", "clear confirmed", "clear retracted"),
        ),
    )
}
# What each wrong rule makes of a receiver, of a level or of a movement.
FOUND_ALERTS = {
    "intent=after": "the retraction does not reach",
    "silence=all": "the retraction does not reach",
    "doubt=unsent": "the retraction does not reach",
    "order=any": "receiver sees",
    "order=alert": "an end without its raise",
    "ends=alone": "an end without its raise",
    "webhook=attempt": "receiver acts twice",
}
FOUND_STOCK = {
    "stock=rekey": "idempotency_key: applied",
    "stock=reread": "compare_and_set: applied",
    "intent=after": "compare_and_set: applied",
    "reference=first": "compare_and_set: applied",
    "nights=none": "absolute: ",
}
# Each with its rules, what is found, and in how many histories.
WRONG = [
    *((ALERTS, name, rules, FOUND_ALERTS[name], 400) for name, rules in WRONG_DISPATCHERS.items()),
    *((STOCK, name, rules, FOUND_STOCK[name], 4_000) for name, rules in WRONG_ADAPTERS.items()),
]


@pytest.mark.parametrize("name", PROMISES)
def test_what_is_promised_is_kept(name: str) -> None:
    sender, rules, reached = PROMISES[name]
    fired: Counter[str] = Counter()

    @SEARCH
    @given(sender.histories)
    def explore(history: bytes) -> None:
        fired["histories"] += 1
        assert sender.report(rules, history, fired) == ""

    explore()

    assert fired["histories"] >= HISTORIES * 0.9
    assert {name: fired[name] for name in reached if fired[name] < 20} == {}


@pytest.mark.parametrize(
    ("sender", "rules", "words", "times"),
    [pytest.param(sender, *rest, id=name) for sender, name, *rest in WRONG],
)
def test_a_wrong_rule_is_found(sender: Sender, rules: Any, words: str, times: int) -> None:
    report = partial(sender.report, rules)

    try:
        find(
            sender.histories,
            lambda history: report(history).startswith(words),
            settings=settings(SEARCH, max_examples=times),
        )
    except NoSuchExample:
        pytest.fail("no history shows what is wrong with it")
