"""Batches to Cassandra are cut by bytes: sixteen mebibytes are refused, and a refused batch would be refused for ever."""

from dataclasses import dataclass
from typing import Any

import pytest

from speed_layer.sink.writer import BATCH_BYTES, batches_of

REFUSED_BY_CASSANDRA = 16 << 20


@dataclass(frozen=True)
class Bound:
    """Stands in for a bound statement: a number, and serialised values."""

    number: int
    values: tuple[bytes | None, ...]


def groups(*sizes: tuple[int, ...]) -> list[list[Any]]:
    """Groups of statements with values of these sizes, numbered through."""
    numbers = iter(range(10_000))
    return [[Bound(next(numbers), (b"x" * size, None)) for size in group] for group in sizes]


def numbers(batches: list[list[Any]]) -> list[list[int]]:
    """Which statements each batch holds."""
    return [[statement.number for statement in batch] for batch in batches]


def test_small_groups_travel_together() -> None:
    assert numbers([*batches_of(groups((10, 10), (10,), (10,)))]) == [[0, 1, 2, 3]]


def test_group_that_no_longer_fits_begins_a_batch() -> None:
    assert numbers([*batches_of(groups((400, 400), (400, 400), (10,)), most_bytes=1_500)]) == [[0, 1], [2, 3, 4]]


def test_group_larger_than_a_batch_is_cut() -> None:
    assert numbers([*batches_of(groups((10,), (900, 900, 100), (10,)), most_bytes=1_200)]) == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("sizes", [[800_000] * 20, [1_600_000] * 20, [6_000_000] * 3, [200] * 9_000, [1] * 5 + [15_000_000]])
def test_no_batch_of_several_is_above_the_bound_and_none_above_what_cassandra_takes(sizes: list[int]) -> None:
    batches = [*batches_of(groups(*((size,) for size in sizes)))]

    for batch in batches:
        size = sum(len(statement.values[0]) for statement in batch)
        assert size <= BATCH_BYTES or (len(batch) == 1 and size < REFUSED_BY_CASSANDRA)
    assert [number for batch in numbers(batches) for number in batch] == [*range(len(sizes))]


def test_nothing_is_no_batch() -> None:
    assert [*batches_of([])] == []
