"""The table of states row by row; laws over histories are in tests/laws."""

from collections.abc import Iterable, Sequence

import pytest
from msgspec import json, structs

from alerting.alert.ids import Chain, alert_id
from alerting.alert.published import PublishedAlert
from alerting.episodes.affected_days import FoldedDays
from alerting.episodes.alert_diff import EvaluationContext, Transition, diff_alerts, match_alerts
from alerting.episodes.fold import IDLE_STATE, Episode, FoldState, WindowVerdict, fold
from alerting.episodes.verdict import Verdict
from tally.alerts.message import AlertState, Edge, Reason
from tally.time.windows import WINDOW_MILLIS

CHAIN = Chain("queue-too-long", "367", "device:q-2")
COUNT = 8
ALL = frozenset(window * WINDOW_MILLIS for window in range(COUNT))
OPEN, CLOSED = (1, 2, None), (1, 2, 5)


def instant(window: int) -> int:
    return window * WINDOW_MILLIS


def episode(start: int, raised: int, ended: int | None, version: int = 1) -> Episode:
    return Episode(
        instant(start), instant(raised), version, None if ended is None else instant(ended)
    )


def days(
    *spans: tuple[int, int, int | None], covered: Iterable[int] = (), begin: FoldState = IDLE_STATE
) -> FoldedDays:
    """Eight windows with these episodes, of which these are covered."""
    episodes = tuple(episode(*one) for one in spans)
    return FoldedDays(0, instant(COUNT), begin, episodes, frozenset(map(instant, covered)))


def told(
    window: int, state: AlertState = "provisional", of: PublishedAlert | None = None
) -> PublishedAlert:
    edge: Edge = "raise" if of is None else "clear"
    return PublishedAlert(
        alert_id=alert_id(CHAIN, 1, instant(window), edge),
        chain=CHAIN,
        version=1,
        edge=edge,
        window=instant(window),
        state=state,
        raised_at=instant(window + 1),
        start=instant(1),
        of=None if of is None else of.alert_id,
    )


def transitions(
    folded: FoldedDays,
    *before: PublishedAlert,
    at: int = 3,
    causes: dict[int, Reason] | None = None,
) -> list[Transition]:
    basis = EvaluationContext(at=instant(at), late_after=900, retraction_reasons=causes or {})
    return diff_alerts(CHAIN, folded, before, basis)


def states(found: Sequence[Transition]) -> list[tuple[str, int, str]]:
    return [(one.alert.edge, one.alert.window // WINDOW_MILLIS, one.alert.state) for one in found]


@pytest.mark.parametrize(
    ("covered", "expected"),
    [((), "provisional"), ((0, 1), "provisional"), ((0, 1, 2), "confirmed")],
)
def test_what_is_wanted_is_raised_and_confirmed_at_once_where_it_is_covered(
    covered: tuple[int, ...], expected: AlertState
) -> None:
    found = transitions(days(OPEN, covered=covered))

    assert states(found) == [("raise", 2, expected)]


@pytest.mark.parametrize(
    ("before", "span", "covered", "expected"),
    [
        ("provisional", OPEN, range(3), [("raise", 2, "confirmed")]),
        ("provisional", OPEN, range(2), []),
        ("confirmed", OPEN, range(3), []),
        ("confirmed", OPEN, (), []),
        ("provisional", None, (), []),
        ("confirmed", None, range(2), []),
        ("provisional", None, range(3), [("raise", 2, "retracted")]),
        ("confirmed", None, range(3), [("raise", 2, "retracted")]),
        ("retracted", None, range(3), []),
    ],
)
def test_table_of_states(
    before: AlertState,
    span: tuple[int, int, int | None] | None,
    covered: Iterable[int],
    expected: list[tuple[str, int, str]],
) -> None:
    folded = days(*([span] if span else []), covered=covered)

    assert states(transitions(folded, told(2, before))) == expected


def test_what_holds_again_is_another_alert_that_names_the_one_before() -> None:
    first = told(2, "retracted")
    second = transitions(days(OPEN), first)[0].alert
    third = transitions(days(OPEN), first, structs.replace(second, state="retracted"))[0].alert

    assert (second.occurrence, second.supersedes) == (2, first.alert_id)
    assert (third.occurrence, third.supersedes) == (3, second.alert_id)
    assert len({first.alert_id, second.alert_id, third.alert_id}) == 3


def test_an_end_of_another_raise_in_the_same_window_is_another_end() -> None:
    gone = told(1, "retracted")
    its_end = told(5, "retracted", of=gone)
    now = told(2, "confirmed")

    found = transitions(days(CLOSED), gone, its_end, now)

    assert [(one.alert.occurrence, one.alert.of) for one in found] == [(2, now.alert_id)]


def test_an_episode_that_has_ended_has_an_end_of_its_own() -> None:
    raised, ended = transitions(days(CLOSED, covered=range(6)))

    assert states([raised, ended]) == [("raise", 2, "confirmed"), ("clear", 5, "confirmed")]
    assert (ended.alert.of, ended.alert.version) == (raised.alert.alert_id, 1)
    assert (raised.alert.start, raised.alert.ended) == (instant(1), instant(5))


@pytest.mark.parametrize(
    ("span", "covered", "expected"),
    [
        # Its window stays that of which it was first told.
        ((1, 2, 6), range(7), [("clear", 5, "confirmed")]),
        ((1, 2, 6), range(6), []),
        ((1, 2, 4), range(6), [("clear", 5, "confirmed")]),
        ((1, 2, 4), range(5), []),
        (OPEN, range(6), [("clear", 5, "retracted")]),
        (OPEN, range(5), []),
    ],
)
def test_an_end_is_one_alert_wherever_it_moves(
    span: tuple[int, int, int | None], covered: Iterable[int], expected: list[tuple[str, int, str]]
) -> None:
    raised = told(2, "confirmed")

    assert states(transitions(days(span, covered=covered), raised, told(5, of=raised))) == expected


def test_an_end_goes_with_its_raise_and_after_it() -> None:
    raised = told(2, "confirmed")
    end = told(5, of=raised)

    found = transitions(days(covered=range(3)), raised, end, causes={instant(2): "erasure"})

    assert states(found) == [("raise", 2, "retracted"), ("clear", 5, "retracted")]
    assert {one.reason for one in found} == {"erasure"}


def test_an_end_without_a_raise_that_stands_is_taken_back() -> None:
    end = told(5, of=told(2))

    assert states(transitions(days(covered=range(6)), told(2, "retracted"), end)) == [
        ("clear", 5, "retracted")
    ]


def test_of_two_alerts_in_one_episode_the_earlier_stays() -> None:
    early, late = told(2), told(4)

    found = transitions(days((1, 2, None), covered=range(6)), late, early)

    assert states(found) == [("raise", 2, "confirmed"), ("raise", 4, "retracted")]
    assert [one.reason for one in found] == [None, "merged"]


def test_an_episode_whose_start_moves_keeps_its_alert() -> None:
    assert transitions(days((0, 1, None)), told(2)) == []


def test_a_moved_start_is_confirmed_once_the_later_of_both_windows_is_covered() -> None:
    folded = days((2, 4, None), covered=range(4))

    assert transitions(folded, told(2)) == []
    assert states(transitions(days((2, 4, None), covered=range(5)), told(2))) == [
        ("raise", 2, "confirmed")
    ]


@pytest.mark.parametrize(("at", "late"), [(3, False), (4, False), (5, True)])
def test_a_first_message_long_after_its_window_is_late(at: int, late: bool) -> None:
    found = transitions(days(OPEN), at=at)[0].alert

    assert (found.late, found.raised_at) == (late, instant(at))


def test_a_later_state_is_as_late_as_the_first_message_was() -> None:
    found = transitions(days(OPEN, covered=range(3)), told(2), at=100)[0].alert

    assert (found.late, found.raised_at) == (False, instant(3))


def test_alerts_of_other_days_are_left_alone() -> None:
    before = FoldedDays(instant(4), instant(8), IDLE_STATE, (), ALL)
    after = FoldedDays(0, instant(2), IDLE_STATE, (), ALL)

    assert transitions(before, told(2)) == transitions(after, told(2)) == []


def test_an_episode_from_the_day_before_keeps_its_alert_and_gets_its_end() -> None:
    begin = FoldState(open=episode(1, 2, None))
    folded = FoldedDays(instant(4), instant(8), begin, (episode(1, 2, 5),), ALL)

    assert states(transitions(folded, told(2, "confirmed"))) == [("clear", 5, "confirmed")]


def test_a_retired_rule_leaves_its_last_alert_as_it_is_and_its_version_settles_it() -> None:
    said: list[Verdict] = [0, 1, 1, 0, 0, 0]
    folded = fold([WindowVerdict(instant(place), one, 1, 2) for place, one in enumerate(said)])

    found = transitions(FoldedDays(0, instant(6), IDLE_STATE, folded.episodes, ALL), told(2))

    assert states(found) == [("raise", 2, "confirmed")]


def test_told_alerts_are_as_good_as_new_after_they_were_stored() -> None:
    end = told(5, of=told(2))

    assert json.decode(json.encode(end), type=PublishedAlert) == end


def test_alerts_are_matched_in_any_order_of_both() -> None:
    episodes = [episode(1, 2, 3), episode(4, 4, None)]
    alerts = [told(2), told(4), told(5), told(3)]

    found = match_alerts(alerts, episodes)

    assert match_alerts(alerts[::-1], episodes[::-1]) == found
    assert [one.window // WINDOW_MILLIS if one else None for _, one in found.pairs] == [2, 4]
    assert (found.merged, found.unmatched) == ((told(5),), (told(3),))
