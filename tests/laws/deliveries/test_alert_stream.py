"""Over any number of broken connections a subscriber has each alert once, or is told of the gap."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from tests.controls.layers.scalar_id import resumed_by_own_offset
from tests.laws.deliveries.stream_world import ACTIONS, Broken, Step, play

WEIGHTED = ("append",) * 5 + ("take",) * 6 + ("read",) * 3 + ("break",) * 2 + ACTIONS
steps = st.tuples(st.sampled_from(WEIGHTED), st.integers(0, 3))
histories = st.integers(0, 60).flatmap(lambda n: st.lists(steps, min_size=n, max_size=n))
# Nothing is lost: what is missing then is missing without a word.
quiet_steps = steps.filter(lambda step: step[0] not in ("delete", "anew"))
quiet_histories = st.lists(quiet_steps, max_size=60)
MANY = settings(max_examples=2_000, suppress_health_check=list(HealthCheck))
SEARCH = settings(
    max_examples=2_000,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@MANY
@given(histories)
def test_each_event_once_or_a_gap_that_covers_it(history: list[Step]) -> None:
    play(history)


@MANY
@given(quiet_histories)
def test_without_a_loss_there_is_no_gap(history: list[Step]) -> None:
    assert play(history)["gaps"] == 0


def test_histories_reach_what_the_law_is_about() -> None:
    reached: Counter[str] = Counter()

    @settings(SEARCH, max_examples=200)
    @given(histories)
    def explore(history: list[Step]) -> None:
        reached.update(play(history))

    explore()

    assert min(reached[name] for name in (*ACTIONS, "events", "gaps")) > 50, reached


def test_id_that_is_the_events_own_offset_alone_is_found() -> None:
    def breaks(history: list[Step]) -> bool:
        try:
            play(history, resumed_by_own_offset)
        except Broken as error:
            return str(error).startswith("never told")
        return False

    assert find(quiet_histories, breaks, settings=SEARCH)


@pytest.mark.parametrize("lost", ["delete", "anew"])
def test_a_client_that_was_away_too_long_is_told_and_goes_on(lost: str) -> None:
    happened = play([("append", 0), ("read", 0), ("break", 0), (lost, 0), ("append", 0)])

    assert happened["append"] == 2
