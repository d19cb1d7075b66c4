from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tally.families.generation import (
    GenerationRange,
    first_covering_generations,
)
from tally.time.windows import window_starts
from tests.support.serving.serving_world import at

DAY, START = date(2026, 11, 21), at("2026-11-21T00:00")
minutes = st.integers(0, 24 * 60)


def covering(generation: int, span: tuple[int, int]) -> GenerationRange:
    first, last = (START + timedelta(minutes=of) for of in span)
    return GenerationRange(DAY, generation, 1, first, last)


histories = st.lists(st.tuples(minutes, minutes), min_size=1, max_size=6).map(
    lambda found: [covering(number, span) for number, span in enumerate(found, 1)]
)


@given(histories)
def test_first_of_a_window_is_the_first_generation_that_covered_it_and_its_rows_are_asked_for(
    history: list[GenerationRange],
) -> None:
    *older, serving = history
    found = first_covering_generations(history, serving)

    for start in window_starts(START, START + timedelta(days=1)):
        expected = next((one for one in older if one.covers(start)), None)
        first = next((one for one in found if one.covering.covers(start)), None)
        assert (first and first.covering) == expected
        assert first is None or first.windows.start <= start < first.windows.end


def test_generation_that_covered_nothing_new_is_not_read() -> None:
    history = [
        covering(number, span)
        for number, span in enumerate(
            [(0, 60), (0, 60), (0, 120), (30, 90), (0, 1440), (0, 1440)], 1
        )
    ]

    found = first_covering_generations(history, history[-1])

    assert [
        (one.covering.generation, (one.windows.end - one.windows.start) / timedelta(minutes=1))
        for one in found
    ] == [(1, 60), (3, 60), (5, 1320)]
