"""A member of the group that waits for its partitions: not for ever, and not as if it had
nothing to do."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from runtime.processor.alignment import AlignmentLimits
from runtime.processor.intake import MAX_UNASSIGNED_SECONDS, Intake, IntakeOptions
from tally.errors import TallyError


class SilentGroup:
    """A consumer that is given nothing; a test calls what it subscribed with."""

    def __init__(self) -> None:
        self.on_assign: Callable[..., None] = lambda *_: None
        self.on_lost: Callable[..., None] = lambda *_: None

    def subscribe(
        self,
        _topics: list[str],
        on_assign: Callable[..., None],
        on_lost: Callable[..., None],
        **_others: Any,
    ) -> None:
        self.on_assign, self.on_lost = on_assign, on_lost

    def consume(self, _count: int, _timeout: float) -> list[Any]:
        return []

    def assignment(self) -> list[TopicPartition]:
        return []

    def assign(self, _starts: list[TopicPartition]) -> None: ...

    def resume(self, _partitions: list[TopicPartition]) -> None: ...


class NoPositions:
    """Positions of nothing, beside brokers that answer unless they are away."""

    is_away = False

    def start_positions(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        return list(partitions)

    def positions_after(self, last: object) -> list[TopicPartition]:
        raise AssertionError(last)

    def current_positions(self, partition_ids: object) -> list[TopicPartition]:
        raise AssertionError(partition_ids)

    def brokers_answer(self) -> bool:
        return not self.is_away


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("runtime.processor.intake.time.monotonic", made)
    return made


@pytest.fixture
def group() -> SilentGroup:
    return SilentGroup()


@pytest.fixture
def positions() -> NoPositions:
    return NoPositions()


@pytest.fixture
def intake(group: SilentGroup, positions: NoPositions, clock: Clock) -> Intake:
    made = Intake(
        group, IntakeOptions(("in",), lambda _record: 0.0, AlignmentLimits(600)), positions
    )
    made.subscribe()
    return made


def test_group_that_gives_nothing_back_ends_the_process_after_any_rebalance_would_have_ended(
    intake: Intake, group: SilentGroup, clock: Clock
) -> None:
    group.on_assign(group, [])
    group.on_lost(group, [])
    clock.now += MAX_UNASSIGNED_SECONDS
    intake.poll(0)

    clock.now += 1
    with pytest.raises(TallyError, match="no partitions for 75 s though the brokers answer"):
        intake.poll(0)


def test_first_assignment_is_not_waited_for_for_ever_either(intake: Intake, clock: Clock) -> None:
    clock.now += MAX_UNASSIGNED_SECONDS + 1
    with pytest.raises(TallyError, match="no partitions"):
        intake.poll(0)


def test_going_back_to_what_is_committed_is_no_assignment(
    intake: Intake, group: SilentGroup, clock: Clock
) -> None:
    group.on_lost(group, [])
    intake.rewind()
    clock.now += MAX_UNASSIGNED_SECONDS + 1
    with pytest.raises(TallyError, match="no partitions"):
        intake.poll(0)


def test_brokers_that_are_away_are_waited_for(
    intake: Intake, positions: NoPositions, clock: Clock
) -> None:
    positions.is_away = True
    for _ in range(20):
        clock.now += MAX_UNASSIGNED_SECONDS + 1
        assert intake.poll(0) == 0

    positions.is_away = False
    assert intake.poll(0) == 0
    # The client itself has lost them for good: a new process has another one.
    clock.now += MAX_UNASSIGNED_SECONDS + 1
    with pytest.raises(TallyError, match="though the brokers answer"):
        intake.poll(0)


def test_an_empty_share_is_an_answer(intake: Intake, group: SilentGroup, clock: Clock) -> None:
    group.on_assign(group, [])
    clock.now += 10 * MAX_UNASSIGNED_SECONDS

    assert intake.poll(0) == 0


def test_who_does_not_know_its_partitions_is_behind(intake: Intake, group: SilentGroup) -> None:
    told = [intake.is_behind]
    for event in (group.on_assign, group.on_lost, group.on_assign):
        event(group, [])
        told.append(intake.is_behind)

    assert told == [True, False, True, False]
