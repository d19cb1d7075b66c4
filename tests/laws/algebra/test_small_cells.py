"""Nobody reckons a small cell back: not by subtraction, not by knowing the rule."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from operator import add

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from serving.disclosure import suppression_reason
from serving.questions import catalogue
from tally.people.small_cells import is_small, split_safe_runs
from tests.controls.layers.own_cell_alone import Published, own_cell_alone, with_smallest_beside
from tests.support.oracles.differencing import Asked, IsTold, revealed
from tests.support.serving.small_cells import CLASSES, Counts, Day, answered

QUARTERS, SMALLEST = 6, 5
Rule = Callable[[Sequence[int], int], Published]


@st.composite
def counts(draw: st.DrawFn) -> Counts:
    visits = draw(st.sampled_from([0, 0, 0, 0, 1, 2, 4, 5, 6, 12]))
    some = st.integers(0, visits)
    return Counts(visits, draw(st.sampled_from([0, 0, 1, 4, 5, 9])), draw(some), draw(some))


CELLS = [*product(range(QUARTERS), CLASSES)]
DAYS = st.tuples(*[counts()] * len(CELLS)).map(lambda each: dict(zip(CELLS, each, strict=True)))


def by_the_rule(day: Day) -> IsTold:
    told = answered(day, SMALLEST).disclosure

    def is_told(asked: Asked) -> bool:
        metric = catalogue.metric(asked.metric)
        return suppression_reason(told, metric, asked.stretch, asked.mac_class is not None) is None

    return is_told


# Without shrinking: each step of it asks hundreds of questions.
@settings(max_examples=50, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(DAYS)
def test_no_small_number_is_told_or_a_difference_of_numbers_that_are(day: Day) -> None:
    assert revealed(day, QUARTERS, SMALLEST, by_the_rule(day)) == []


def test_without_others_beside_it_a_small_number_is_a_difference() -> None:
    day = {(quarter, "fixed"): Counts(visits) for quarter, visits in enumerate((9, 3, 7, 8))}

    found = revealed(day, QUARTERS, SMALLEST, own_cell_alone(day, QUARTERS, SMALLEST))

    assert found and revealed(day, QUARTERS, SMALLEST, by_the_rule(day)) == []


def in_runs(found: Sequence[int], smallest: int) -> Published:
    def is_safe(total: int) -> bool:
        return not is_small(total, smallest)

    if not is_safe(sum(found)):
        return ((len(found), None),)
    return tuple((len(run), sum(run)) for run in split_safe_runs(found, add, is_safe))


def possible(rule: Rule, cells: int, most: int, smallest: int) -> Iterator[tuple[int, set[int]]]:
    """Of every small cell of every day how many different numbers days have there that are
    answered alike."""
    alike: dict[Published, list[tuple[int, ...]]] = defaultdict(list)
    for day in product(range(most + 1), repeat=cells):
        # By their sum: what days could be mistaken for each other has the same.
        if sum(day) <= most:
            alike[rule(day, smallest)].append(day)
    for days in alike.values():
        for place in range(cells):
            numbers = {day[place] for day in days}
            yield from ((number, numbers) for number in numbers if is_small(number, smallest))


@pytest.mark.parametrize("smallest", [3, 4, 5])
def test_of_all_days_that_are_answered_alike_a_small_cell_has_many_numbers(smallest: int) -> None:
    # Whoever knows the rule and all answers knows one of these sets of days, and no more.
    fewest = min(len(numbers) for _, numbers in possible(in_runs, 4, 3 * smallest, smallest))

    assert fewest >= smallest - 1


def test_by_the_smallest_beside_it_a_small_cell_has_one_number() -> None:
    assert min(len(numbers) for _, numbers in possible(with_smallest_beside, 3, 12, 4)) == 1
