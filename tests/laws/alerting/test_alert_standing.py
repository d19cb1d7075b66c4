"""Whether a raise is open hangs on what was told of it alone: not on order or repeats."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from alerting.alert.current_state import current_states, newest_episode, open_alert
from tally.alerts.message import Alert, AlertState
from tests.support.alerts.alerts import end_of, then, told

RAISE = told()
FINAL: tuple[tuple[AlertState, ...], ...] = (
    (),
    ("confirmed",),
    ("retracted",),
    ("confirmed", "retracted"),
)
lives = st.lists(st.sampled_from(FINAL), min_size=1, max_size=4)


def story(of_raise: Sequence[AlertState], of_ends: Sequence[Sequence[AlertState]]) -> list[Alert]:
    """A raise and its ends one after the other, each with what followed its first state."""
    messages = [RAISE, *(then(RAISE, state) for state in of_raise)]
    for number, states in enumerate(of_ends, 1):
        first = end_of(RAISE, number)
        messages += [first, *(then(first, state) for state in states)]
    return messages


@given(st.sampled_from(FINAL), lives, st.data())
def test_any_order_and_any_repeats_stand_alike(
    of_raise: Sequence[AlertState], of_ends: list[Sequence[AlertState]], data: st.DataObject
) -> None:
    messages = story(of_raise, of_ends)
    repeated = messages + data.draw(st.lists(st.sampled_from(messages)))
    shuffled = data.draw(st.permutations(repeated))

    assert open_alert(RAISE.alert_id, shuffled) == open_alert(RAISE.alert_id, messages)
    assert current_states(shuffled) == current_states(messages)
    assert newest_episode(RAISE.alert_id, shuffled) == newest_episode(RAISE.alert_id, messages)


@given(st.sampled_from(FINAL), lives)
def test_open_is_what_was_neither_taken_back_nor_ended(
    of_raise: Sequence[AlertState], of_ends: list[Sequence[AlertState]]
) -> None:
    messages = story(of_raise, of_ends)
    ended = any("retracted" not in states for states in of_ends)
    is_open = "retracted" not in of_raise and not ended

    stands = open_alert(RAISE.alert_id, messages)

    assert (stands is not None) == is_open
    assert stands is None or stands.state == (of_raise or ("provisional",))[-1]


def test_an_end_that_was_taken_back_leaves_the_episode_open() -> None:
    end = end_of(RAISE)
    messages = [RAISE, end, then(end, "retracted", reason="late_data")]
    newest = newest_episode(RAISE.alert_id, messages)

    assert newest is not None and newest.ended is None
    assert newest_episode(RAISE.alert_id, messages[:2]) == end.episode


def test_an_end_is_never_open_and_an_unknown_id_is_nothing() -> None:
    end = end_of(RAISE)

    assert open_alert(end.alert_id, [RAISE, end]) is None
    assert (open_alert("x", [RAISE]), newest_episode("x", [RAISE])) == (None, None)
