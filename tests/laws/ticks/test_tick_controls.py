"""Negative controls: each wrong way to tell how far the data has come says something untrue."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.controls.alerts import tick_watermarks as wrong
from tests.laws.ticks.tick_world import Op, Teller, World, histories

SEARCH = settings(
    max_examples=3_000,
    database=None,
    derandomize=True,
    deadline=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize(
    "put_in",
    [
        {"probe": wrong.probe_from_the_end},
        {"probe": wrong.probe_by_the_clock},
        {"probe": wrong.probe_past_transactions},
        {"advance_watermarks": wrong.advance_by_earlier_ends},
        {"advance_watermarks": wrong.advance_where_silence_answers},
        {"advance_watermarks": wrong.advance_over_epochs},
        {"merged": wrong.merge_field_by_field},
    ],
    ids=lambda put_in: next(iter(put_in.values())).__name__,
)
def test_wrong_way_says_that_something_is_read_which_is_not(put_in: dict[str, Any]) -> None:
    @SEARCH
    @given(histories)
    def holds(history: list[list[Op]]) -> None:
        world = World(iter(history))
        teller = Teller(world, **put_in)
        for _ in range(1 + len(history) // 4):
            assert world.wrong(teller.tick()) == []

    with pytest.raises(AssertionError):
        holds()
