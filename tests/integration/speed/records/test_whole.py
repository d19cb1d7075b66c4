"""By which definition a partition is read, and since when its rows are whole: what readers are
told."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cassandra.cluster import Session

from runtime.registry.sources import SALES
from speed_layer.checkpoint_files import StartPosition
from speed_layer.progress import LONGEST_PERIOD_MILLIS, CompleteFrom, complete_from
from speed_layer.state.records import PartitionReport, parse_reports
from tally.algebra.parts import Sum
from tally.families.epochs import RaisedEpoch
from tally.families.family import Family, RecordFields
from tests.integration.speed.query import NOON, SpeedQuery

FLOOR = datetime(2026, 11, 26, 9, 15, tzinfo=UTC)
FLOOR_MILLIS = round(FLOOR.timestamp() * 1000)
Rows = dict[tuple[int, int], tuple[int, int]]


@pytest.fixture
def made(session: Session) -> Family:
    """A family of which nothing is told yet."""
    session.execute("TRUNCATE speed_epoch")
    return Family("made", (), (Sum("total"),), epoch=2)


def tell(whole: CompleteFrom, session: Session, until: Mapping[int, int]) -> None:
    """The writes of a report that has come so far."""
    for number, offset in until.items():
        for statement in whole.build_writes("made", number, offset):
            session.execute(statement)


def told(session: Session) -> Rows:
    """(until, floor) by (partition, epoch)."""
    rows = session.execute("SELECT * FROM speed_epoch WHERE family = 'made'")
    return {(row.partition, row.epoch): (row.until, row.floor) for row in rows}


def begun(session: Session, family: Family, floor: datetime | None = FLOOR) -> CompleteFrom:
    """A query that began at offset 0 of partition 0 and 5 of partition 1."""
    return CompleteFrom(session, [family], StartPosition({"made": {0: 0, 1: 5}}, {"made": floor}))


def test_partition_of_which_nothing_was_read_is_whole_from_the_floor_of_its_query_on(
    session: Session, made: Family
) -> None:
    whole = begun(session, made)

    whole.begin({"made": {0: 0, 1: 7}})
    tell(whole, session, {0: 0, 1: 7})

    assert told(session) == {(0, 2): (0, FLOOR_MILLIS)}


def test_partition_that_goes_on_is_told_of_once_a_record_has_shown_its_state(
    session: Session, made: Family
) -> None:
    whole = begun(session, made, floor=None)
    whole.begin({"made": {0: 3, 1: 7}})

    whole.note(
        [
            PartitionReport("made", 1, 1, 7, 9, floor=-(2**62)),
            PartitionReport("other", 0, 1, floor=1),
        ]
    )
    tell(whole, session, {0: 3, 1: 8})

    assert told(session) == {(1, 2): (8, 0)}


def test_driver_that_starts_again_goes_on_and_one_that_wakes_up_late_changes_nothing(
    session: Session, made: Family
) -> None:
    before = begun(session, made, floor=None)
    before.begin({"made": {0: 0}})
    tell(before, session, {0: 4})
    after = begun(session, made)
    after.begin({"made": {0: 4}})

    # Where only markers of transactions have come no report says anything.
    tell(after, session, {0: 6})
    tell(before, session, {0: 5})

    assert told(session) == {(0, 2): (6, 0)}


def test_another_definition_has_a_row_of_its_own(session: Session, made: Family) -> None:
    before = begun(session, made, floor=None)
    before.begin({"made": {0: 0}})
    tell(before, session, {0: 4})
    after = begun(session, replace(made, epoch=3), floor=None)
    after.begin({"made": {0: 4}})
    tell(after, session, {0: 4})
    nothing_read = told(session)

    after.note([PartitionReport("made", 0, 1, 4, 9, floor=FLOOR_MILLIS)])
    tell(after, session, {0: 5})

    assert nothing_read == {(0, 2): (4, 0)}
    assert told(session) == {(0, 2): (4, 0), (0, 3): (5, FLOOR_MILLIS)}


def test_epoch_is_the_highest_that_rows_of_any_day_have(made: Family) -> None:
    day = FLOOR.date()

    assert made.epochs.highest == 2
    assert (
        replace(made, raised=(RaisedEpoch(day, day, 7), RaisedEpoch(day, day, 5))).epochs.highest
        == 7
    )


def test_presence_is_whole_once_the_longest_key_period_over_the_floor_is_over(
    made: Family,
) -> None:
    presence = replace(made, reading=RecordFields("presence", (), ()))

    assert complete_from(made, FLOOR_MILLIS) == FLOOR_MILLIS
    assert complete_from(presence, FLOOR_MILLIS) == FLOOR_MILLIS + LONGEST_PERIOD_MILLIS
    assert (complete_from(presence, 0), complete_from(made, -(2**62))) == (0, 0)


def test_state_of_another_definition_says_from_which_window_on_it_counts(
    query: SpeedQuery,
) -> None:
    (before,) = [
        report
        for batch_report in query.batches([query.sale(1)])
        for report in parse_reports(batch_report)
    ]
    changed = replace(query, family=replace(SALES, epoch=SALES.epoch + 1))

    (after,) = [
        report
        for batch_report in changed.batches([query.sale(2)])
        for report in parse_reports(batch_report)
    ]

    assert before.floor is not None and before.floor < 0
    assert after.floor == round((NOON + timedelta(minutes=15)).timestamp() * 1000)
