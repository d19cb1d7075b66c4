from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from batch_layer.master.table import MasterTable
from speed_layer.checkpoint_files import (
    POSITION_FILE,
    StartPosition,
    load_start_position,
    store_start_position,
)
from speed_layer.floor import FileStatistics, read_statistics, refuse_unknown_past, survey_files
from speed_layer.job import parse_starting_offsets
from tally.errors import BadSettings, TallyError
from tests.unit.batch.master.masters import NOON, append

FLOOR = datetime(2017, 9, 19, 22, 45, tzinfo=UTC)


START_POSITIONS = [
    StartPosition(
        {"sales": {0: 12, 1: 0}, "traffic": {0: 0, 1: 7}}, {"sales": FLOOR, "traffic": None}
    ),
    StartPosition({"sales": {0: 0}}, {}),
]


@pytest.mark.parametrize("position", START_POSITIONS)
def test_start_position_is_read_as_it_was_stored(tmp_path: Path, position: StartPosition) -> None:
    store_start_position(tmp_path / "views", position)

    assert load_start_position(tmp_path / "views") == position
    assert [file.name for file in (tmp_path / "views").iterdir()] == [POSITION_FILE]


def test_checkpoint_without_record_has_none(tmp_path: Path) -> None:
    assert load_start_position(tmp_path / "views") is None


def test_given_offsets_name_their_family_and_leave_other_partitions_at_the_beginning() -> None:
    assert parse_starting_offsets('{"sales": {"1": 12}}', "sales", partitions=3) == {
        0: 0,
        1: 12,
        2: 0,
    }


def test_family_that_is_not_named_has_no_given_offsets() -> None:
    assert parse_starting_offsets('{"sales": {"1": 12}}', "traffic", partitions=3) is None


@pytest.mark.parametrize(
    "text", ["12", "{", '{"sales": 12}', '{"sales": {"x": 1}}', '{"sales": {"3": 1}}']
)
def test_offsets_that_cannot_be_meant_are_refused(text: str) -> None:
    with pytest.raises(BadSettings, match="--starting-offsets"):
        parse_starting_offsets(text, "sales", partitions=3)


def test_past_that_the_master_does_not_hold_is_refused() -> None:
    with pytest.raises(
        TallyError,
        match=r"sales partition 1: .* offset 12 .* up to 11; let `tally up master` catch up",
    ):
        refuse_unknown_past("sales", {0: 3, 1: 12}, reached={0: 3, 1: 11})


def test_past_that_the_master_holds_is_not_refused() -> None:
    refuse_unknown_past("sales", {0: 3, 1: 0}, reached={0: 3})


# A record of a master's file: partition, offset, and the minute in which it happened, if it says.
Record = tuple[int, int, int | None]
RECORDS = st.tuples(st.integers(0, 2), st.integers(0, 9), st.none() | st.integers(0, 59))
FILES = st.lists(st.lists(RECORDS, min_size=1, max_size=4), max_size=5)
STARTS = st.dictionaries(st.integers(0, 2), st.integers(0, 10))


def minute(number: int) -> datetime:
    return datetime(2026, 11, 1, 12, number, tzinfo=UTC)


def statistics(path: str, records: list[Record], is_stated: bool) -> FileStatistics:
    if not is_stated:
        return {"path": path}
    partitions, offsets = [record[0] for record in records], [record[1] for record in records]
    instants = [minute(record[2]) for record in records if record[2] is not None]
    return {
        "path": path,
        "min.partition": min(partitions),
        "max.partition": max(partitions),
        "min.offset": min(offsets),
        "max.offset": max(offsets),
        "max.happened_at": max(instants, default=None),
    }


def latest_of(files: list[list[Record]], starting: dict[int, int]) -> datetime | None:
    below = (
        minute(at)
        for records in files
        for partition, offset, at in records
        if at is not None and offset < starting.get(partition, 0)
    )
    return max(below, default=None)


@given(FILES, STARTS, st.sets(st.integers(0, 4)))
def test_statistics_and_files_across_the_offsets_give_the_latest_record_below_them(
    files: list[list[Record]], starting: dict[int, int], unstated: set[int]
) -> None:
    stated = [
        statistics(str(number), records, number not in unstated)
        for number, records in enumerate(files)
    ]

    latest, across = survey_files(stated, starting)

    read = latest_of([files[int(path)] for path in across], starting)
    assert max(filter(None, (latest, read)), default=None) == latest_of(files, starting)


def test_only_files_across_the_offsets_are_read() -> None:
    early: list[Record] = [(0, 0, 1), (0, 4, 2)]
    late: list[Record] = [(0, 5, 3), (0, 9, 30)]
    beyond: list[Record] = [(0, 10, 40)]
    files = [statistics(str(at), part, True) for at, part in enumerate([early, late, beyond])]

    assert survey_files(files, {0: 7}) == (minute(2), ["1"])
    assert survey_files(files, {0: 10}) == (minute(30), [])


def test_statistics_are_those_that_an_append_writes(tmp_path: Path) -> None:
    master = MasterTable.open(tmp_path)
    append(master, range(3))

    [found] = read_statistics(DeltaTable(str(tmp_path)), "sales")

    numbers = [found[f"{which}.offset"] for which in ("min", "max")]
    assert (numbers, found["max.happened_at"]) == ([0, 2], NOON + timedelta(seconds=2))
    assert read_statistics(DeltaTable(str(tmp_path)), "traffic") == []
