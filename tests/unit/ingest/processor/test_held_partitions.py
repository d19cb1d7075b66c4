"""A step that holds a partition: none of its records are taken, and its positions do not move."""

from collections.abc import Collection, Iterable, Sequence

import pytest

from runtime.processor.alignment import Alignment, AlignmentLimits
from runtime.processor.step import Input, Output
from tally.errors import RetryLater
from tests.unit.ingest.gateway.brokers import AT_ONCE, Brokers
from tests.unit.ingest.processor.test_step import Noted


class Slow(Noted):
    """Takes several transactions for the records `x` of a partition."""

    def __init__(self, brokers: Brokers, transactions: int) -> None:
        super().__init__(brokers)
        self._transactions, self._left = transactions, dict[int, int]()

    @property
    def busy_partitions(self) -> Collection[int]:
        return [number for number, left in self._left.items() if left > 0]

    def restore(self, state: Iterable[Input]) -> None:
        self._left = {}
        super().restore(state)

    def process(self, record: Input) -> Sequence[Output]:
        assert record.partition not in self.busy_partitions
        if record.key == b"x":
            self._left[record.partition] = self._transactions
        return super().process(record)

    def before_commit(self) -> Sequence[Output]:
        self._left = {number: left - 1 for number, left in self._left.items()}
        return super().before_commit()


class Blind(Noted):
    """Cannot find something out for a while."""

    def __init__(self, brokers: Brokers, turns: int) -> None:
        super().__init__(brokers)
        self._turns = turns

    def before_commit(self) -> Sequence[Output]:
        if self._turns > 0:
            self._turns -= 1
            self.calls.append("not yet")
            raise RetryLater("planted")
        return super().before_commit()


def test_positions_of_a_held_partition_move_when_its_work_is_done() -> None:
    brokers = Brokers({0: "xa", 1: "b"}, [(0, 1), 3, 0, 0, 0])
    seen: list[dict[int, int]] = []
    stored = brokers._store

    def noted(outputs: Sequence[Output], positions: Sequence[object]) -> None:
        stored(outputs, positions)  # type: ignore[arg-type]
        seen.append(dict(brokers.committed))

    brokers._store = noted  # type: ignore[method-assign]
    brokers.run(Slow(brokers, 3), AT_ONCE)

    assert [(each[0], each[1]) for each in seen] == [(0, 1), (0, 1), (1, 1), (2, 1)]
    assert brokers.told == ["x=1", "b=1", "a=1"]


def test_records_of_a_held_partition_come_again_to_whoever_has_it_next() -> None:
    brokers = Brokers({0: "xa"}, [(0,), 2, 0, (0,), 2, 0, 0, 0])

    brokers.run(Slow(brokers, 3), AT_ONCE)

    assert brokers.calls.count("process(x)") == 2
    assert brokers.committed[0] == 2


def test_step_that_is_blind_is_asked_again_without_its_state_being_read_anew() -> None:
    brokers = Brokers({0: "ab"}, [(0,), 1, 1, 0, 0, 0, 0])

    brokers.run(Blind(brokers, 3), AT_ONCE)

    assert brokers.calls.count("restore()") == 1
    assert brokers.calls.count("not yet") == 3
    # Nothing more was given to it meanwhile.
    assert brokers.calls.index("process(b)") > max(
        place for place, call in enumerate(brokers.calls) if call == "not yet"
    )
    assert brokers.told == ["a=1", "b=1"]


@pytest.mark.parametrize("held", [(), (1,)])
def test_held_partition_is_neither_taken_nor_waited_for(held: Collection[int]) -> None:
    alignment = Alignment(AlignmentLimits(600, max_wait_seconds=2.0))
    alignment.assign((0, 1), now=0.0)
    alignment.add(Input("in", 0, 0, 0, None, b""), 1000.0)

    buffer = alignment.find_ready(1.0, held)

    # Partition 1 may still have earlier ones.
    assert (buffer is None) == (not held)
    assert alignment.is_empty((0,)) and not alignment.is_empty(held)
