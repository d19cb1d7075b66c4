"""When a message is called for again, and when no more."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from alerting.deliver.state.attempts import (
    GIVES_UP_AFTER,
    apply_answer,
    begin_attempt,
    give_up_overdue,
)
from alerting.deliver.state.records import WebhookMessage
from runtime.outbound.caller import DELAYS, OutboundAnswer
from tests.unit.alerting.deliver.deliveries import HOUR, MINUTE, NOON, SECOND, URL

NOTHING = OutboundAnswer(error="no answer in 15 s")


def message(**changed: object) -> WebhookMessage:
    made = WebhookMessage(
        channel="floor",
        message_id="alrt_1_confirmed",
        kind="alert",
        url=URL,
        body="{}",
        lanes=("a",),
        order=1,
        due_at=NOON,
    )
    return structs.replace(made, **changed)


def played(answer: OutboundAnswer, one: WebhookMessage | None = None) -> list[int]:
    """The instants of all attempts, in milliseconds after the first, when each has this answer."""
    waiting = one or message()
    found: list[int] = []
    while waiting.outcome == "waiting" and len(found) < 1_000:
        now = waiting.due_at
        if over := give_up_overdue(waiting, now):
            waiting = over
            continue
        found.append(now - NOON)
        waiting = apply_answer(begin_attempt(waiting, now), answer, now + 100)
    return found


def test_attempts_without_an_answer_follow_the_schedule_and_end_after_three_days() -> None:
    times = played(NOTHING)

    gaps = [after - before for before, after in pairwise(times)]
    expected = [*DELAYS, *[DELAYS[-1]] * len(gaps)]
    assert times[0] == 0
    assert times[-1] == GIVES_UP_AFTER
    assert all(
        0.8 * wanted <= gap - 100 <= 1.2 * wanted
        for gap, wanted in zip(gaps[:-1], expected, strict=False)
    )
    assert DELAYS == (5_000, 30_000, 120_000, 600_000, HOUR, 3 * HOUR, 6 * HOUR)
    assert 14 <= len(times) <= 22


@pytest.mark.parametrize("status", [None, 408, 429, 500, 503, 599, 100])
def test_an_answer_that_may_be_better_next_time_is_asked_for_again(status: int | None) -> None:
    after = apply_answer(begin_attempt(message(), NOON), OutboundAnswer(status=status), NOON)

    assert after.outcome == "waiting"
    assert after.may_have_arrived == (status != 429)


@pytest.mark.parametrize("status", [200, 202, 204, 299])
def test_every_2xx_is_delivered(status: int) -> None:
    after = apply_answer(begin_attempt(message(), NOON), OutboundAnswer(status=status), NOON)

    assert (after.outcome, after.may_have_arrived) == ("delivered", True)


def test_410_ends_a_message_at_once() -> None:
    after = apply_answer(begin_attempt(message(), NOON), OutboundAnswer(status=410), NOON)

    assert (after.outcome, after.may_have_arrived) == ("dead", False)


@pytest.mark.parametrize(
    ("asked", "gap"),
    [
        (7, 7 * SECOND),
        (0, 5 * SECOND),
        (3_600, HOUR),
        (10**9, GIVES_UP_AFTER),
        (1e300, GIVES_UP_AFTER),
    ],
)
def test_retry_after_is_obeyed_within_bounds(asked: float, gap: int) -> None:
    one = begin_attempt(message(), NOON)

    after = apply_answer(one, OutboundAnswer(status=503, retry_after=asked), NOON)

    assert after.due_at - NOON == gap


def test_an_attempt_whose_process_died_is_due_again_by_its_record_alone() -> None:
    one = begin_attempt(message(), NOON)

    assert (one.outcome, one.may_have_arrived) == ("waiting", True)
    assert 4 * SECOND <= one.due_at - NOON <= 6 * SECOND


def test_an_attempt_that_nobody_heard_of_stays_in_doubt_when_the_next_is_refused() -> None:
    again = begin_attempt(begin_attempt(message(), NOON), NOON + MINUTE)

    assert apply_answer(again, OutboundAnswer(status=400), NOON + MINUTE).may_have_arrived


def test_who_was_not_there_at_the_end_makes_one_last_attempt() -> None:
    much_later = NOON + 100 * HOUR
    waiting = apply_answer(begin_attempt(message(), NOON), NOTHING, NOON)

    assert give_up_overdue(waiting, much_later) is None
    last = apply_answer(begin_attempt(waiting, much_later), NOTHING, much_later)
    assert last.outcome == "dead"


def test_a_last_attempt_whose_process_died_is_given_up() -> None:
    last = begin_attempt(begin_attempt(message(), NOON), NOON + GIVES_UP_AFTER)

    assert give_up_overdue(last, NOON + GIVES_UP_AFTER) is None
    over = give_up_overdue(last, last.due_at)
    assert over is not None and over.outcome == "dead"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (NOTHING, "unknown"),
        (OutboundAnswer(status=503, retry_after=1), "unknown"),
        (OutboundAnswer(status=429), "dead"),
        (OutboundAnswer(status=404), "dead"),
        (OutboundAnswer(status=204), "delivered"),
    ],
)
def test_at_most_once_is_called_once(answer: OutboundAnswer, outcome: str) -> None:
    one = begin_attempt(message(promise="at_most_once"), NOON)

    assert one.outcome == "unknown"
    assert apply_answer(one, answer, NOON).outcome == outcome


@given(
    st.text("0123456789abcdef", min_size=1),
    st.lists(st.sampled_from([None, 500, 429, 408, 503]), min_size=1, max_size=60),
    st.integers(0, 10**12),
)
def test_whatever_is_answered_the_attempts_end_within_three_days(
    message_id: str, statuses: list[int | None], seconds: int
) -> None:
    waiting = message(message_id=message_id)
    for status in statuses:
        now = waiting.due_at
        if waiting.outcome != "waiting" or give_up_overdue(waiting, now):
            break
        assert now <= NOON + GIVES_UP_AFTER
        answer = OutboundAnswer(status=status, retry_after=seconds)
        before, waiting = waiting, apply_answer(begin_attempt(waiting, now), answer, now)
        assert waiting.outcome == "dead" or waiting.due_at > before.due_at


def test_retry_after_does_not_lead_beyond_the_end() -> None:
    two_days_later = NOON + 48 * HOUR
    one = begin_attempt(begin_attempt(message(), NOON), two_days_later)

    after = apply_answer(one, OutboundAnswer(status=503, retry_after=10**6), two_days_later)

    assert after.due_at == NOON + GIVES_UP_AFTER
