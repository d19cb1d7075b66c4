"""What the inbox shows: the tables' word and what was told since, however often."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerting.alert.current_state import current_states, open_alert
from alerting.queries.alerts import ListedAlert, to_listed
from tally.alerts.message import Alert, AlertBaseline, AlertState
from tests.support.alerts.alert_suite import STORY
from tests.support.alerts.alerts import end_of, then, told
from web.dashboard.alerts import inbox
from web.dashboard.alerts.inbox import Inbox
from web.dashboard.alerts.markup import value_text
from web.dashboard.shared.labels import number_text

RAISED = told(1)
END = end_of(RAISED)


def shown(box: Inbox) -> tuple[list[str], dict[str, AlertState]]:
    """Ids of what is open, newest first, and the state of every alert."""
    rows = box.rows
    states = {one.alert_id: one.state for one in (*rows.open, *rows.others)}
    return [one.alert_id for one in rows.open], states


def tables(messages: Sequence[Alert]) -> list[ListedAlert]:
    """What the tables have of these."""
    last = current_states(messages).values()
    return [to_listed(one, open_alert(one.alert_id, messages) is not None) for one in last]


@given(st.integers(0, len(STORY)), st.integers(0, 5), st.data())
def test_however_far_behind_the_tables_are_the_same_is_shown(
    filed: int, behind: int, data: st.DataObject
) -> None:
    whole, box = Inbox(), Inbox()
    whole.load(tables(STORY))
    # The stream may repeat some that are filed; of one store it is in order.
    box.load(tables(STORY[:filed]))
    for one in STORY[max(0, filed - behind) :]:
        for _ in range(data.draw(st.integers(1, 2))):
            box.add_message(one)

    assert shown(box) == shown(whole)


def test_an_end_that_is_heard_closes_and_its_retraction_opens_again() -> None:
    box = Inbox()
    box.load(tables([RAISED]))
    assert shown(box)[0] == [RAISED.alert_id]
    box.add_message(END)
    assert shown(box)[0] == []
    box.add_message(then(END, "retracted", reason="late_data"))
    assert shown(box)[0] == [RAISED.alert_id]


def test_one_that_had_ended_out_of_sight_is_not_opened_by_its_confirmation() -> None:
    box = Inbox()
    box.load([to_listed(RAISED, False)])
    box.add_message(then(RAISED, "confirmed"))

    assert shown(box) == ([], {RAISED.alert_id: "confirmed"})


def test_what_is_overdue_is_so_until_a_generation_speaks() -> None:
    box = Inbox(is_overdue=lambda one: one.state == "provisional")
    box.load([to_listed(RAISED, True)])
    before = [one.overdue for one in box.rows.open]
    box.add_message(then(RAISED, "confirmed"))

    assert (before, [one.overdue for one in box.rows.open]) == ([True], [False])


def test_what_was_heard_long_ago_is_the_tables_word_alone() -> None:
    now = [0.0]
    box = Inbox(clock=lambda: now[0])
    box.add_message(RAISED)
    now[0] = inbox.MESSAGE_SECONDS + 1
    box.load([])

    assert shown(box) == ([], {})


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("transactions", 8.0, "8 receipts"),
        ("revenue", -123450.0, "-1,234.50 EUR"),
        ("conversion", 0.25, "25.0 %"),
        ("a-metric-that-is-no-more", 1234567.5, "1,234,567.5"),
    ],
)
def test_numbers_have_the_unit_of_their_metric(metric: str, value: float, text: str) -> None:
    assert number_text(metric, value, "EUR") == text


def test_nothing_known_is_no_zero() -> None:
    assert value_text(told(value=None), "EUR") == "–"
    usual = value_text(told(value=0, threshold=None, baseline=AlertBaseline(20_782, 2.5, 4)), "EUR")
    assert usual.startswith("0 receipts · usual 2.5")
