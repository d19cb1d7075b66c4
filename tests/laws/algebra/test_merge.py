"""The merge rule over every history: prefixes, duplicates, conflicts, late readers of either
layer."""

from hypothesis import given
from hypothesis import strategies as st

from tally.algebra.merge import MISSING, Axes, MergedWindow, Parts, WindowState
from tests.laws.alerting.worlds.rules import (
    check_conflicts_stay_away,
    check_equals_recompute,
    check_never_falls,
)
from tests.laws.layers.history import (
    EPOCH,
    WINDOWS,
    Cut,
    Event,
    cuts,
    logs,
    merge_window,
    served,
    speed_of,
    speed_state,
    total,
)


@given(st.data(), logs())
def test_any_split_between_batch_and_speed_equals_a_full_recompute_of_the_longer_prefix(
    data: st.DataObject, log: list[Event]
) -> None:
    check_equals_recompute(merge_window, log, data.draw(cuts(log)))


@given(st.data(), logs())
def test_redelivery_in_any_order_changes_nothing(data: st.DataObject, log: list[Event]) -> None:
    window, copies = data.draw(st.sampled_from(WINDOWS)), data.draw(st.integers(1, 3))
    received = [event for event in log if event.window == window]

    shuffled = data.draw(st.permutations(received * copies))

    assert speed_of(shuffled) == speed_state(log, window, len(received))


@given(st.data(), logs(conflicts=False))
def test_served_value_never_falls_while_both_layers_read_on(
    data: st.DataObject, log: list[Event]
) -> None:
    check_never_falls(merge_window, log, data.draw(st.lists(cuts(log), min_size=2, max_size=5)))


@given(st.data(), logs())
def test_conflict_that_batch_took_back_never_comes_back(
    data: st.DataObject, log: list[Event]
) -> None:
    check_conflicts_stay_away(merge_window, log, data.draw(cuts(log)))


@given(logs())
def test_a_rebuild_over_the_whole_log_is_never_overruled(log: list[Event]) -> None:
    whole = Cut(
        len(log),
        tuple(len([event for event in log if event.window == window]) for window in WINDOWS),
    )

    sources = {served(merge_window, log, window, whole).source for window in WINDOWS}

    assert sources <= {"batch", "missing"}


@given(st.data(), logs())
def test_renaming_an_axis_between_speed_and_batch_changes_no_total(
    data: st.DataObject, log: list[Event]
) -> None:
    cut, window = data.draw(cuts(log)), data.draw(st.sampled_from(WINDOWS))

    def renamed(
        speed: WindowState | None, batch: WindowState | None, covered: bool
    ) -> MergedWindow:
        return merge_window(speed, _renamed(batch), covered)

    assert total(served(renamed, log, window, cut)) == total(served(merge_window, log, window, cut))


def _renamed(state: WindowState | None) -> WindowState | None:
    if state is None:
        return None
    values: dict[Axes, Parts] = {(f"{axes[0]}-new",): parts for axes, parts in state.values.items()}
    excluded: dict[Axes, Parts] = {
        (f"{axes[0]}-new",): parts for axes, parts in state.excluded.items()
    }
    return WindowState(state.epoch, state.events, values, excluded)


@given(st.integers(1, 3), st.integers(0, 9), st.integers(1, 3), st.integers(0, 9))
def test_the_higher_epoch_wins_whatever_the_other_has_seen(
    epoch: int, events: int, other: int, more: int
) -> None:
    speed, batch = WindowState(epoch, events, {}), WindowState(other, more, {})

    expected = "speed" if (epoch, events) > (other, more) else "batch"

    assert merge_window(speed, batch, covered=True).source == expected


def test_missing_side_is_never_a_silent_zero() -> None:
    assert merge_window(None, None, covered=False) == MISSING == MergedWindow("missing", None, None)


def test_covered_window_without_rows_is_a_true_zero() -> None:
    assert merge_window(None, None, covered=True) == MergedWindow("batch", 0, {})


def test_speed_alone_is_served_as_speed() -> None:
    state = WindowState(EPOCH, 1, {("USD",): {"amount": 5}})

    assert merge_window(state, None, covered=True) == MergedWindow("speed", 1, state.values)
