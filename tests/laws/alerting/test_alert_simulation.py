"""Live equals simulate: what was told of covered windows is what the views that serve call for."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerting.episodes.fold import WindowVerdict, fold
from alerting.simulate.store import find_idle_window
from tests.controls.alerts import alerts_simulation as wrong
from tests.laws.alerting.test_alert_days import verdict_lists
from tests.laws.alerting.worlds.alert_search import report_of
from tests.laws.alerting.worlds.alert_world import World
from tests.laws.alerting.worlds.simulated_world import SimulatedWorld

HISTORIES = 400
WRONG = [
    wrong.LosesOneThatWasTold,
    wrong.HasOneThatWasTakenBack,
    wrong.HasNoEnds,
    wrong.ComparesWhatIsNotSettled,
    wrong.ComparesWhatWasNotEvaluated,
    wrong.FoldsEachDayFromRest,
    wrong.SimulatedMarksTheLatest,
    wrong.SimulatedRemembersWhatWasAborted,
]


def test_what_was_told_is_what_a_simulation_says_of_any_span() -> None:
    report, fired = report_of(SimulatedWorld, "", HISTORIES)

    assert report is None
    assert [name for name in ("compared", "left out", "late", "merged") if not fired[name]] == []


@pytest.mark.parametrize("kind", [pytest.param(one, id=one.__name__) for one in WRONG])
def test_planted_difference_is_found(kind: type[World]) -> None:
    report, _ = report_of(kind, "otherwise", 200)

    assert report is not None, "no history shows what is wrong with it"


@given(verdict_lists(), st.integers(0, 30), st.integers(0, 30))
def test_behind_windows_that_clear_a_fold_from_rest_is_the_fold_over_everything(
    verdicts: list[WindowVerdict], one: int, other: int
) -> None:
    cuts = [0, *sorted((min(one, len(verdicts)), min(other, len(verdicts)))), len(verdicts)]
    _, lead, asked = (verdicts[begin:end] for begin, end in pairwise(cuts))
    if find_idle_window(lead) is None:
        return

    before = fold(verdicts[: cuts[2]]).state
    from_lead = fold(lead).state

    assert from_lead == before
    assert fold(asked, from_lead) == fold(asked, before)


def test_windows_that_say_nothing_leave_it_open_where_a_fold_stands() -> None:
    silent = [WindowVerdict(number, 0) for number in range(96)]

    broken = (
        WindowVerdict(0, -1, clear_for=2),
        WindowVerdict(1, 0),
        WindowVerdict(2, -1, clear_for=2),
    )

    assert find_idle_window(silent) is None
    assert find_idle_window([*silent, WindowVerdict(96, -1)]) == 96
    assert find_idle_window(broken) is None
