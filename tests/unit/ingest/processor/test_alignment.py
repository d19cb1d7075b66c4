"""Partitions merged by event time: order, waiting and its bounds. No Kafka, no clock."""

from collections.abc import Iterable

from runtime.processor.alignment import Alignment, AlignmentLimits
from runtime.processor.step import Input

NEVER = float("-inf")


def record(partition: int, offset: int) -> Input:
    return Input("raw", partition, offset, 0, None, b"x" * 10)


def aligned(buffers: dict[int, Iterable[float | None]], **limits: float) -> Alignment:
    alignment = Alignment(AlignmentLimits(lead_seconds=600, **limits))  # type: ignore[arg-type]  # all limits are numbers
    alignment.assign(buffers, now=0.0)
    for partition, times in buffers.items():
        for offset, time in enumerate(times):
            alignment.add(record(partition, offset), time)
    return alignment


def taken(alignment: Alignment, now: float = 0.0) -> list[tuple[int, int]]:
    """(partition, offset) of everything that is ready now, in the order taken."""
    order = []
    while (buffer := alignment.find_ready(now)) is not None:
        popped = buffer.pop(now)
        order.append((popped.partition, popped.offset))
    return order


def end_all(alignment: Alignment, *partitions: int) -> Alignment:
    for partition in partitions:
        alignment.mark_ended(partition)
    return alignment


def test_records_come_in_event_time_order_across_partitions() -> None:
    alignment = end_all(aligned({0: [10, 40, 50], 1: [20, 30, 60]}), 0, 1)

    assert taken(alignment) == [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2)]


def test_partition_keeps_its_own_order_and_a_late_record_does_not_wait() -> None:
    alignment = end_all(aligned({0: [1000, 5, 1100], 1: [900, 1050]}), 0, 1)

    assert taken(alignment) == [(1, 0), (0, 0), (0, 1), (1, 1), (0, 2)]


def test_partition_not_yet_heard_of_holds_the_others() -> None:
    assert taken(aligned({0: [10], 1: []})) == []


def test_partition_that_has_ended_holds_nobody() -> None:
    assert taken(end_all(aligned({0: [10, 99_999], 1: []}), 1)) == [(0, 0), (0, 1)]


def test_silent_partition_is_waited_for_only_so_long() -> None:
    alignment = aligned({0: [10], 1: []}, max_wait_seconds=2.0)

    assert taken(alignment, now=1.9) == []
    assert taken(alignment, now=2.0) == [(0, 0)]


def test_emptied_partition_lets_the_others_go_ten_minutes_ahead() -> None:
    alignment = end_all(aligned({0: [100, 700, 701], 1: [100]}), 0)

    assert taken(alignment) == [(0, 0), (1, 0), (0, 1)]


def test_partition_that_speaks_again_is_waited_for_again() -> None:
    alignment = end_all(aligned({0: [100, 5000], 1: []}), 0, 1)
    alignment.add(record(1, 0), 200)

    assert taken(alignment) == [(0, 0), (1, 0)]


def test_record_without_readable_time_waits_for_nobody() -> None:
    assert taken(aligned({0: [None, 10], 1: []})) == [(0, 0)]


def test_full_partition_pauses_and_resumes_at_half() -> None:
    alignment = end_all(
        aligned({0: [float(time) for time in range(11)], 1: []}, most_records=10), 0, 1
    )

    assert (alignment.to_pause(), alignment.to_pause(), alignment.to_resume()) == ([0], [], [])
    for _ in range(6):
        buffer = alignment.find_ready(0.0)
        assert buffer is not None
        buffer.pop(0.0)
    assert (alignment.to_resume(), alignment.to_resume()) == ([0], [])


def test_large_records_pause_a_partition_by_their_bytes() -> None:
    assert aligned({0: [1.0, 2.0]}, most_bytes=19).to_pause() == [0]


def test_new_assignment_forgets_everything() -> None:
    alignment = aligned({0: [10], 1: [20]})
    alignment.assign([1], now=5.0)
    alignment.add(record(0, 7), 30)

    assert alignment.is_empty()


def test_reader_is_behind_until_each_partition_has_ended_and_is_empty() -> None:
    alignment = aligned({0: [1.0], 1: []})
    seen = [alignment.is_behind()]
    end_all(alignment, 0, 1)
    seen.append(alignment.is_behind())
    taken(alignment)

    assert [*seen, alignment.is_behind()] == [True, True, False]


def test_reader_without_partitions_is_not_behind() -> None:
    assert aligned({}).is_behind() is False
