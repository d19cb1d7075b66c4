"""Negative controls: each wrong evaluator is found by histories that the right one survives."""

import pytest

from tests.controls.alerts import alerts_evaluator as wrong
from tests.laws.alerting.worlds.alert_search import report_of
from tests.laws.alerting.worlds.alert_world import World

# With the begin of the report, and in how many histories it is found at the latest.
WRONG: list[tuple[type[World], str, int]] = [
    (wrong.RestoresTooEarly, "twice", 100),
    (wrong.RestoresToTheStableOffset, "twice", 100),
    (wrong.GoesOnAlthoughFenced, "stuck", 100),
    (wrong.RepeatsFromMemory, "twice", 100),
    (wrong.RemembersWhatWasAborted, "not one to one", 100),
    (wrong.ActsByATimer, "twice", 2_000),
    (wrong.ClosesByTheClock, "silence", 100),
    (wrong.IgnoresEpochs, "silence", 100),
    (wrong.ConfirmsWhatIsClosed, "confirmed without", 100),
    (wrong.WaitsForHints, "still provisional", 100),
    (wrong.LosesNotices, "not one to one", 400),
    (wrong.MarksTheLatest, "still provisional", 100),
    (wrong.KeepsTheLastOfASubject, "twice", 100),
    (wrong.TellsAgainUnderOneId, "out of order", 100),
    (wrong.ForgetsWhatHasEnded, "twice", 100),
    (wrong.ReadsRulesWhenever, "judged by", 400),
    (wrong.BackdatesVersions, "judged by", 100),
    (wrong.BeginsAnewWithAnEdit, "not one to one", 100),
]


@pytest.mark.parametrize(
    ("kind", "begin", "most"), [pytest.param(*one, id=one[0].__name__) for one in WRONG]
)
def test_wrong_evaluator_is_found(kind: type[World], begin: str, most: int) -> None:
    report, _ = report_of(kind, begin, most)

    assert report is not None, "no history shows what is wrong with it"
