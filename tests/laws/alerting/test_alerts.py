"""Whatever happens to evaluators, brokers and layers: subscribers are told each state of an alert
once, and in the end what is true."""

import pytest

from tests.controls.alerts.alerts_evaluator import HasAnIdOfEachRun, LosesEveryHint
from tests.laws.alerting.worlds.alert_search import report_of
from tests.laws.alerting.worlds.alert_world import World

HISTORIES = 2_000
# What the histories have to reach, and most of them do.
REACHED = (
    "raise provisional",
    "raise confirmed",
    "raise retracted",
    "clear provisional",
    "clear confirmed",
    "clear retracted",
    "second occurrence",
    "merged",
    "late",
    "fenced",
    "aborted",
    "outcome unknown",
    "restores that wait",
    "days left alone",
)


def test_each_state_is_told_once_and_in_the_end_what_is_true() -> None:
    report, fired = report_of(World, "", HISTORIES)

    assert report is None
    assert [name for name in REACHED if fired[name] == 0] == []


@pytest.mark.parametrize("kind", [LosesEveryHint, HasAnIdOfEachRun])
def test_what_costs_time_alone_makes_nothing_wrong(kind: type[World]) -> None:
    report, _ = report_of(kind, "", 100)

    assert report is None
