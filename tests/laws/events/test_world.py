"""Whatever writers die, wake up, go on from old checkpoints or begin anew: readers see prefixes
that grow. Each wrong rule is found."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from tests.laws.layers.world import ACTIONS, Action, Broken, Rules, play

# Records and micro-batches are what happens most.
WEIGHTED = ("append",) * 4 + ("step",) * 4 + ACTIONS
actions = st.tuples(st.sampled_from(WEIGHTED), st.integers(0, 15), st.integers(0, 23))
# Evenly spread in length: plain lists would mostly be too short for anything to happen.
histories = st.integers(0, 40).flatmap(
    lambda length: st.lists(actions, min_size=length, max_size=length)
)


# To find is enough; the smallest example takes minutes.
SEARCH = settings(
    max_examples=4_000,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@settings(max_examples=500, suppress_health_check=list(HealthCheck))
@given(histories)
def test_readers_see_growing_prefixes_and_the_whole_at_the_end(history: list[Action]) -> None:
    play(Rules(), history)


def test_histories_reach_what_the_law_is_about() -> None:
    reached: Counter[str] = Counter()

    @settings(
        max_examples=250,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(histories)
    def explore(history: list[Action]) -> None:
        world = play(Rules(), history)
        reached["several writers"] += len(world.writers) > 1
        reached["a floor"] += any(writer.floor > 0 for writer in world.writers)
        reached["closed windows"] += any(writer.frontier > 4 for writer in world.writers)
        reached["writes on their way"] += bool(world.delayed)
        reached["speed rows"] += bool(world.held)
        reached["resends"] += len(world.log) > len(set(world.log))

    explore()

    assert (
        min(
            reached[name]
            for name in (
                "several writers",
                "a floor",
                "closed windows",
                "writes on their way",
                "speed rows",
                "resends",
            )
        )
        > 20
    )


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(Rules(floor=False), id="no floor: the tail of a window as its whole"),
        pytest.param(
            Rules(register="wall_clock"), id="wall clock: an old writer lowers what was served"
        ),
        pytest.param(Rules(register="add"), id="addition: a repeated micro-batch counts twice"),
        pytest.param(
            Rules(token=False), id="no token: a slow rebuild takes back what a fast one published"
        ),
        pytest.param(
            Rules(checkpointed_frontier=False),
            id="checkpoint without state: the tail of a window as its whole",
        ),
        pytest.param(Rules(late_is="event"), id="each event late by itself: a window with holes"),
    ],
)
def test_wrong_rule_is_found(wrong: Rules) -> None:
    try:
        print(find(histories, lambda history: _is_broken(wrong, history), settings=SEARCH))
    except NoSuchExample:
        pytest.fail("no history shows what is wrong with it")


def _is_broken(rules: Rules, history: list[Action]) -> bool:
    try:
        play(rules, history)
    except Broken:
        return True
    return False
