"""Where the ingest goes on, and what is refused when Kafka does not fit what the master holds."""

from datetime import UTC, datetime

import pytest

from batch_layer.master.extent import EMPTY_EXTENT, MasterExtent
from batch_layer.master.positions import refuse_other_log, starting_offsets
from runtime.kafka.log_identity import RecordFingerprint
from runtime.kafka.topics import Bounds
from runtime.records.gaps import AcceptedGap, skip_gaps
from tally.errors import DataLoss

FIRST = MasterExtent({"sales": "id-1"}, {"sales": {0: 5}})
KEPT = {"sales": {0: Bounds(0, 20)}}


def test_ingest_goes_on_where_the_table_ends() -> None:
    assert starting_offsets(FIRST, {"sales": "id-1"}, KEPT) == {"sales": {0: 5}}
    assert starting_offsets(EMPTY_EXTENT, {"sales": "id-1"}, KEPT) == {"sales": {0: 0}}


@pytest.mark.parametrize(("earliest", "end"), [(6, 20), (0, 4)])
def test_records_that_kafka_does_not_hold_stop_the_ingest(earliest: int, end: int) -> None:
    with pytest.raises(DataLoss, match="the master dataset goes on at offset 5"):
        starting_offsets(FIRST, {"sales": "id-1"}, {"sales": {0: Bounds(earliest, end)}})


def test_topic_created_anew_stops_the_ingest() -> None:
    with pytest.raises(DataLoss, match="deleted and created again"):
        starting_offsets(FIRST, {"sales": "id-2"}, KEPT)


LAST = RecordFingerprint(4, 1_500_000_000_000, "aa")
MARKED = MasterExtent({"sales": "id-1"}, {"sales": {0: 5}}, {"sales": {0: LAST}})


def test_same_last_record_is_the_same_log() -> None:
    refuse_other_log(MARKED, KEPT, {("sales", 0, 4): LAST})


@pytest.mark.parametrize(
    "found",
    [
        None,
        RecordFingerprint(4, 1_500_000_000_000, "bb"),
        RecordFingerprint(4, 1_500_000_000_001, "aa"),
    ],
)
def test_another_last_record_stops_the_ingest(found: RecordFingerprint | None) -> None:
    with pytest.raises(
        DataLoss, match="the record at offset 4 is not the one that the master dataset holds"
    ):
        refuse_other_log(MARKED, KEPT, {("sales", 0, 4): found})


def test_last_record_that_kafka_has_let_go_by_its_retention_tells_nothing() -> None:
    refuse_other_log(MARKED, {"sales": {0: Bounds(5, 20)}}, {("sales", 0, 4): None})


def gap(from_offset: int, until_offset: int) -> AcceptedGap:
    instant = datetime(2017, 1, 1, tzinfo=UTC)
    return AcceptedGap("sales", 0, from_offset, until_offset, instant, instant, instant, "test")


@pytest.mark.parametrize(
    ("gaps", "wanted"),
    [
        ([], 5),
        ([gap(5, 9)], 9),
        ([gap(3, 9)], 9),
        ([gap(6, 9)], 5),
        ([gap(1, 5)], 5),
        ([gap(9, 12), gap(5, 9)], 12),
    ],
)
def test_accepted_gap_is_passed_and_no_other_record(gaps: list[AcceptedGap], wanted: int) -> None:
    assert skip_gaps(FIRST.until, gaps) == {"sales": {0: wanted}}


def test_gap_at_the_very_beginning_is_passed_by_a_master_that_holds_nothing() -> None:
    assert skip_gaps({}, [gap(0, 6)]) == {"sales": {0: 6}}


def test_gap_of_another_topic_changes_nothing() -> None:
    assert skip_gaps({"traffic": {0: 5}}, [gap(5, 9)]) == {"traffic": {0: 5}}


def test_hole_names_the_command_that_accepts_it() -> None:
    with pytest.raises(DataLoss, match="`tally gaps accept sales 0`"):
        starting_offsets(FIRST, {"sales": "id-1"}, {"sales": {0: Bounds(6, 20)}})
