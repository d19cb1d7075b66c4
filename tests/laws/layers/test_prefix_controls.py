"""Negative controls: a key of too little breaks the laws that the right one keeps."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.controls.layers.poor_keys import PoorKey, WithoutStore, WithoutWindow
from tests.laws.layers.test_prefix import Sold, behind_a_floor, by_the_rule, logs, taken

SEARCH = settings(
    max_examples=2_000,
    database=None,
    derandomize=True,
    deadline=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("wrong", [WithoutStore, WithoutWindow])
def test_poor_key_counts_otherwise_than_the_rule(wrong: type[PoorKey]) -> None:
    @SEARCH
    @given(logs)
    def holds(log: list[Sold]) -> None:
        assert taken(log, [], wrong)[0] == by_the_rule(log)[0]

    with pytest.raises(AssertionError):
        holds()


def test_without_the_window_two_states_count_unequal_sets_of_one_window() -> None:
    @SEARCH
    @given(logs, st.integers(0, 40))
    def holds(log: list[Sold], position: int) -> None:
        anew, whole = behind_a_floor(log, position, [], WithoutWindow)
        assert anew == whole

    with pytest.raises(AssertionError):
        holds()
