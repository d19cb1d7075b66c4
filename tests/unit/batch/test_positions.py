"""What the master dataset says that it holds, version by version, and what is refused when Kafka does not fit it."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from batch_layer.master.positions import NOTHING_HELD, Held, held_by, starting_offsets
from tally.errors import DataLoss

ROW = pa.table({"a": [1]})
FIRST, SECOND = Held({"sales": "id-1"}, {"sales": {0: 5}}), Held({"sales": "id-1"}, {"sales": {0: 9}})
KEPT = {"sales": {0: (0, 20)}}


def append(path: Path, held: Held | None) -> None:
    note = CommitProperties(custom_metadata={"userMetadata": held.as_metadata()}) if held else None
    write_deltalake(path, ROW, mode="append", commit_properties=note)


def test_newest_note_counts_also_behind_a_commit_without_one(tmp_path: Path) -> None:
    for held in (FIRST, SECOND, None):
        append(tmp_path, held)

    assert held_by(tmp_path) == SECOND


def test_an_older_version_is_not_credited_with_later_appends(tmp_path: Path) -> None:
    for held in (None, FIRST, SECOND, None):
        append(tmp_path, held)

    assert [held_by(tmp_path, version) for version in range(4)] == [NOTHING_HELD, FIRST, SECOND, SECOND]


def test_a_folder_without_a_table_holds_nothing(tmp_path: Path) -> None:
    assert held_by(tmp_path) == NOTHING_HELD


def test_ingest_goes_on_where_the_table_ends() -> None:
    assert starting_offsets(FIRST, {"sales": "id-1"}, KEPT) == {"sales": {0: 5}}
    assert starting_offsets(NOTHING_HELD, {"sales": "id-1"}, KEPT) == {"sales": {0: 0}}


@pytest.mark.parametrize(("earliest", "end"), [(6, 20), (0, 4)])
def test_records_that_kafka_does_not_hold_stop_the_ingest(earliest: int, end: int) -> None:
    with pytest.raises(DataLoss, match="the master dataset goes on at offset 5"):
        starting_offsets(FIRST, {"sales": "id-1"}, {"sales": {0: (earliest, end)}})


def test_topic_created_anew_stops_the_ingest() -> None:
    with pytest.raises(DataLoss, match="deleted and created anew"):
        starting_offsets(FIRST, {"sales": "id-2"}, KEPT)
