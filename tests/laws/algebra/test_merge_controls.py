"""Negative controls: each wrong rule breaks a law that the right one keeps."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tally.algebra.merge import MergedWindow, WindowState
from tally.families.family import Family
from tests.laws.alerting.worlds.rules import (
    check_conflicts_stay_away,
    check_equals_recompute,
    check_never_falls,
)
from tests.laws.layers.history import AMOUNT, Event, Merge, cuts, logs, merge_window

add_parts = Family("any", (), (AMOUNT,), epoch=1).join_over_time
SEARCH = settings(
    max_examples=3_000,
    database=None,
    derandomize=True,
    deadline=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


def adds_both_sides(
    speed: WindowState | None, batch: WindowState | None, covered: bool
) -> MergedWindow:
    if speed is None or batch is None:
        return merge_window(speed, batch, covered)
    axes = {**speed.values, **batch.values}
    values = {one: add_parts(speed.values.get(one, {}), batch.values.get(one, {})) for one in axes}
    return MergedWindow("speed", speed.events + batch.events, values)


def prefers_speed_on_ties(
    speed: WindowState | None, batch: WindowState | None, covered: bool
) -> MergedWindow:
    if speed is not None and batch is not None and speed.events == batch.events:
        return MergedWindow("speed", speed.events, speed.values)
    return merge_window(speed, batch, covered)


def always_prefers_speed(
    speed: WindowState | None, batch: WindowState | None, covered: bool
) -> MergedWindow:
    return merge_window(speed, None if speed is not None else batch, covered)


def always_prefers_batch(
    speed: WindowState | None, batch: WindowState | None, covered: bool
) -> MergedWindow:
    return merge_window(None if batch is not None else speed, batch, covered)


def forgets_what_was_excluded(
    speed: WindowState | None, batch: WindowState | None, covered: bool
) -> MergedWindow:
    bare = None if batch is None else WindowState(batch.epoch, batch.events, batch.values)
    return merge_window(speed, bare, covered)


def answers_zero_for_missing(
    speed: WindowState | None, batch: WindowState | None, covered: bool
) -> MergedWindow:
    return merge_window(speed, batch, covered=True)


def _recompute(merge: Merge, log: list[Event], data: st.DataObject) -> None:
    check_equals_recompute(merge, log, data.draw(cuts(log)))


def _conflicts(merge: Merge, log: list[Event], data: st.DataObject) -> None:
    check_conflicts_stay_away(merge, log, data.draw(cuts(log)))


def _monotone(merge: Merge, log: list[Event], data: st.DataObject) -> None:
    check_never_falls(merge, log, data.draw(st.lists(cuts(log), min_size=2, max_size=5)))


BROKEN: Sequence[tuple[Merge, Callable[..., None], bool]] = [
    (adds_both_sides, _recompute, False),
    (always_prefers_speed, _recompute, False),
    (always_prefers_speed, _monotone, False),
    (always_prefers_batch, _recompute, False),
    (prefers_speed_on_ties, _recompute, True),
    (forgets_what_was_excluded, _conflicts, True),
    (answers_zero_for_missing, _recompute, False),
]


@pytest.mark.parametrize(
    ("wrong", "law", "conflicts"), BROKEN, ids=lambda value: getattr(value, "__name__", "")
)
def test_wrong_rule_breaks_a_law(wrong: Merge, law: Callable[..., None], conflicts: bool) -> None:
    with pytest.raises(AssertionError):
        _searched(law, conflicts)(wrong)


def _searched(law: Callable[..., None], conflicts: bool) -> Callable[[Merge], Any]:
    def search(merge: Merge) -> None:
        @SEARCH
        @given(logs(conflicts), st.data())
        def holds(log: list[Event], data: st.DataObject) -> None:
            law(merge, log, data)

        holds()

    return search
