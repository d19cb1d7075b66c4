"""One family's watermarks: what holds them back, and what lets them go on."""

from dataclasses import replace

from alerting.watermark.watermark import (
    FamilyWatermarks,
    PipelineSnapshot,
    SpeedPosition,
    Watermark,
    advance,
)
from tally.alerts.tick import SpeedEpoch

ONE = SpeedEpoch(1)
AT_REST = PipelineSnapshot(
    at=100,
    raw_ends={0: 5, 1: 0},
    positions={0: 5, 1: 0},
    canonical_ends={0: 7, 1: 0},
    speed_positions={0: SpeedPosition(7, ONE), 1: SpeedPosition(0, ONE)},
    stable_ends={0: 7, 1: 0},
)


def instants_after(*snapshots: PipelineSnapshot) -> dict[int, int | None]:
    """By partition the instant up to which is read after the snapshots."""
    watermarks = FamilyWatermarks()
    for snapshot in snapshots:
        watermarks = advance(watermarks, snapshot)
    return {number: one.through for number, one in watermarks.watermarks.items()}


def test_pipeline_at_rest_is_through_at_once() -> None:
    assert instants_after(AT_REST) == {0: 100, 1: 100}


def test_normaliser_that_has_not_passed_one_raw_partition_holds_back_all() -> None:
    assert instants_after(replace(AT_REST, positions={0: 4, 1: 0})) == {0: None, 1: None}


def test_partition_of_which_nobody_tells_holds_back_be_it_empty() -> None:
    assert instants_after(replace(AT_REST, positions={0: 5})) == {0: None, 1: None}
    assert instants_after(replace(AT_REST, stable_ends={0: 7})) == {0: 100, 1: None}
    assert instants_after(replace(AT_REST, canonical_ends={0: 7})) == {0: 100, 1: None}
    assert instants_after(replace(AT_REST, speed_positions={0: SpeedPosition(7, ONE)})) == {0: 100}
    assert instants_after(replace(AT_REST, raw_ends={})) == {0: None, 1: None}


def test_open_transaction_holds_back_its_partition_alone() -> None:
    assert instants_after(replace(AT_REST, canonical_ends={0: 8, 1: 0})) == {0: None, 1: 100}


def test_who_has_read_beyond_the_end_has_read_another_log() -> None:
    assert instants_after(
        replace(AT_REST, canonical_ends={0: 2, 1: 0}, stable_ends={0: 2, 1: 0})
    ) == {
        0: None,
        1: 100,
    }


def test_busy_pipeline_is_told_of_by_what_was_seen_before() -> None:
    snapshots = [
        replace(
            AT_REST,
            at=100 + step,
            raw_ends={0: 10 * step},
            positions={0: 10 * step - 10},
            canonical_ends={0: 20 * step - 20, 1: 0},
            speed_positions={0: SpeedPosition(max(0, 20 * step - 40), ONE)},
            stable_ends={0: 20 * step - 20},
        )
        for step in range(1, 20)
    ]

    instants = [instants_after(*snapshots[:count])[0] or 100 for count in range(1, 20)]

    # Never more than five snapshots behind, and never at its ends.
    assert all(at >= 100 + count - 5 for count, at in enumerate(instants, start=1))
    assert instants == sorted(instants) and instants[-1] < 119


def test_raw_topic_made_anew_is_waited_for_by_its_own_ends() -> None:
    behind = replace(AT_REST, positions={0: 4, 1: 0})
    # Never at its ends again: what was seen of the topic before must not be the oldest for ever.
    anew = [
        replace(AT_REST, at=200 + end, raw_ends={0: end, 1: 0}, positions={0: end - 1, 1: 0})
        for end in (1, 2, 3)
    ]

    assert instants_after(behind, *anew) == {0: 202, 1: 202}


def test_higher_epoch_begins_anew_and_a_lower_one_is_not_heard() -> None:
    later = SpeedEpoch(2, 900)
    again = replace(
        AT_REST, at=200, speed_positions={0: SpeedPosition(3, later), 1: SpeedPosition(0, later)}
    )
    watermarks = advance(advance(FamilyWatermarks(), AT_REST), again)

    assert watermarks.watermarks == {0: Watermark(later, None), 1: Watermark(later, 200)}
    assert advance(watermarks, replace(AT_REST, at=300)).watermarks == watermarks.watermarks


def test_floor_that_rises_within_an_epoch_takes_nothing_back() -> None:
    higher = SpeedEpoch(1, 900)
    watermarks = advance(FamilyWatermarks(), AT_REST)
    watermarks = advance(
        watermarks, replace(AT_REST, positions={}, speed_positions={0: SpeedPosition(7, higher)})
    )

    assert watermarks.watermarks[0] == Watermark(higher, 100)
