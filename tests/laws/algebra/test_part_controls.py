"""Negative controls: parts that are no commutative monoids break the laws that the right ones
keep."""

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tally.algebra.level import Level
from tally.algebra.parts import Histogram, Part, Sum, Uniques, Value
from tests.laws.algebra.test_parts import brought, value

SEARCH = settings(
    max_examples=2_000,
    database=None,
    derandomize=True,
    deadline=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


class Mean(Sum):
    """An average of averages."""

    def fold(self, at: Sequence[int], brought: Sequence[int]) -> Value:
        return sum(brought) // len(brought) if brought else 0

    def plus(self, one: Value, other: Value) -> Value:
        return (one + other) // 2


class Latest(Sum):
    """Whoever came last."""

    def fold(self, at: Sequence[int], brought: Sequence[int]) -> Value:
        return brought[-1] if brought else 0

    def plus(self, one: Value, other: Value) -> Value:
        return other or one


class FirstComers(Uniques):
    """A sketch that keeps whoever came first: its value hangs on the order."""

    SKETCH_SIZE = 2

    def fold(self, at: Sequence[int], brought: Sequence[int]) -> Value:
        return list(dict.fromkeys(brought))[: self.SKETCH_SIZE]


class Forgetful(Level):
    """A level that takes a movement of before a count for one after it."""

    def plus(self, one: Value, other: Value) -> Value:
        return [*one, *other]


class Stretched(Histogram):
    """A histogram whose buckets hang on the largest number so far."""

    def fold(self, at: Sequence[int], brought: Sequence[int]) -> Value:
        step = max([1, *(abs(number) for number in brought)]) // 4 or 1
        return super().fold(at, [number // step * step for number in brought])


@pytest.mark.parametrize("wrong", [Mean, Latest, FirstComers, Forgetful, Stretched])
def test_wrong_part_breaks_a_law(wrong: type[Part]) -> None:
    part = wrong("x")

    @SEARCH
    @given(brought, brought, brought)
    def holds(
        events: list[tuple[int, int]], more: list[tuple[int, int]], most: list[tuple[int, int]]
    ) -> None:
        one, two, three = value(part, events), value(part, more), value(part, most)
        assert part.plus(part.plus(one, two), three) == part.plus(one, part.plus(two, three))
        assert part.plus(one, two) == part.plus(two, one) == value(part, [*more, *events])

    with pytest.raises(AssertionError):
        holds()
