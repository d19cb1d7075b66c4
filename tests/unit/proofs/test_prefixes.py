"""The checker of the readers' answers finds each planted wrong one, and nothing in honest ones."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.clients.readers import Reader, Readings, Seen
from tests.support.oracles.plain_oracle import Event
from tests.support.oracles.prefixes import Steps, judged, steps_of

NOW = datetime.now(UTC).replace(microsecond=0)
STARTS = [
    datetime(2000, 1, 1, tzinfo=UTC),
    datetime(2017, 10, 29, 0, 45, tzinfo=UTC),
    NOW - timedelta(seconds=NOW.timestamp() % 900),
]
SECOND = timedelta(seconds=1)


def sale(number: int, start: datetime, cents: int = 100) -> Event:
    parts = (1, cents, 0, 0, 0, 1000, 0, 0, 0)
    return Event(("1", "1", "0", str(number)), ("1", start, "USD"), parts)


def three_sales(start: datetime) -> Steps:
    """Three receipts that arrived in the seconds 0, 1 and 2 of now; the second came twice."""
    return steps_of(
        (NOW + at * SECOND, sale(number, start)) for at, number in [(0, 1), (1, 2), (1, 2), (2, 3)]
    )


def told(
    *answers: tuple[int | None, str, datetime | None], start: datetime, metric: str = "transactions"
) -> Readings:
    """What one reader remembers of these (value, source, through), in this order."""
    readings = Readings()
    reader = Reader(readings)
    for value, source, through in answers:
        row = {
            "start": start.isoformat(),
            "value": value,
            "source": source,
            "status": "provisional",
            "complete": False,
        }
        reader.hear(
            "1", metric, {"rows": [row], "through": through and through.isoformat()}, days=7
        )
    return readings


@pytest.mark.parametrize("start", STARTS)
def test_honest_answers_of_both_layers_hold(start: datetime) -> None:
    honest = told(
        (None, "missing", None),
        (1, "speed", None),
        (2, "batch", NOW + 1.5 * SECOND),
        (3, "speed", NOW + 1.5 * SECOND),
        (3, "batch", NOW + 9 * SECOND),
        start=start,
    )

    assert judged(three_sales(start), honest).holds


def test_true_zero_of_a_generation_from_before_the_first_arrival_is_honest() -> None:
    assert judged(
        three_sales(STARTS[0]), told((0, "batch", NOW), (1, "speed", NOW), start=STARTS[0])
    ).holds


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        (
            "half flip: the pointer says 9 s, the rows are not there",
            [(0, "batch", NOW + 9 * SECOND)],
        ),
        (
            "half flip: unknown although a generation counts it",
            [(None, "missing", NOW + 9 * SECOND)],
        ),
        ("fewer than had arrived by then", [(2, "batch", NOW + 9 * SECOND)]),
        ("more than was ever sent", [(4, "speed", None)]),
        ("zero of the speed layer, which has no row without an event", [(0, "speed", None)]),
    ],
)
@pytest.mark.parametrize("start", STARTS)
def test_planted_value_that_is_no_prefix_is_found(
    name: str, answers: list[Any], start: datetime
) -> None:
    verdict = judged(three_sales(start), told(*answers, start=start))

    assert (len(verdict.no_prefix), verdict.falls) == (1, []), name


@pytest.mark.parametrize("after", [(2, "speed", None), (0, "batch", NOW), (None, "missing", None)])
def test_planted_fall_silent_zero_and_forgotten_value_are_found(
    after: tuple[int | None, str, datetime | None],
) -> None:
    verdict = judged(three_sales(STARTS[1]), told((3, "speed", None), after, start=STARTS[1]))

    assert [(fall.before, fall.after) for fall in verdict.falls] == [(3, after[0])]


def test_two_readers_may_be_told_an_old_and_a_new_value_each_in_his_order() -> None:
    one, other = (
        told((3, "speed", None), start=STARTS[1]),
        told((2, "speed", None), (3, "speed", None), start=STARTS[1]),
    )

    assert judged(three_sales(STARTS[1]), one, other).holds


def test_window_with_a_conflict_taken_back_may_fall_and_no_other() -> None:
    here, there = STARTS[1], STARTS[1] + timedelta(minutes=15)
    steps = steps_of([(NOW, sale(1, here)), (NOW, sale(1, there, cents=7)), (NOW, sale(2, there))])

    fallen = told((2, "speed", None), (1, "batch", NOW + SECOND), start=there)

    assert (
        judged(steps, fallen).holds,
        judged({**steps, ("1", there): steps["1", here]}, fallen).holds,
    ) == (True, False)


def test_a_verdict_over_nothing_does_not_hold() -> None:
    assert not judged({}, Readings()).holds


@pytest.mark.parametrize(
    ("name", "row"),
    [
        (
            "speed cannot be complete",
            {"source": "speed", "status": "provisional", "complete": True},
        ),
        ("final without complete", {"source": "batch", "status": "final", "complete": False}),
        (
            "complete beyond what is counted",
            {"source": "batch", "status": "final", "complete": True},
        ),
    ],
)
def test_planted_dishonest_word_is_found(name: str, row: dict[str, Any]) -> None:
    readings = Readings()
    start = NOW if "beyond" in name else STARTS[0]

    Reader(readings).hear(
        "1",
        "revenue",
        {"rows": [{"start": start.isoformat(), "value": 1, **row}], "through": NOW.isoformat()},
        days=1,
    )

    assert len(readings.failures) == 1, name


def test_cells_of_an_answer_are_remembered_once() -> None:
    twice = told((1, "speed", None), (1, "speed", None), start=STARTS[0])

    assert (twice.cells, twice.seen) == (
        2,
        {Seen("1", STARTS[0], "transactions", 1, "speed", None)},
    )
