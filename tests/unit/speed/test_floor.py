from datetime import UTC, datetime
from pathlib import Path

import pytest

from speed_layer.checkpoint_files import (
    POSITION_FILE,
    StartPosition,
    load_start_position,
    refuse_unknown_past,
    store_start_position,
)
from speed_layer.job import parse_starting_offsets
from tally.errors import BadSettings, TallyError

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
