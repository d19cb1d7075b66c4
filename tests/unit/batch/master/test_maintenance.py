"""Maintenance makes the master small in files, and changes nothing that it says or holds."""

import os
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from batch_layer.master.extent import read_extent
from batch_layer.master.files import SourceDay
from batch_layer.master.maintenance import (
    LiveFile,
    commit_merge,
    plan_merges,
    read_live_files,
    select_small,
)
from batch_layer.master.table import MasterTable
from tally.errors import AlreadyRunning, TallyError
from tests.unit.batch.master.masters import DAY, append, maintain_now, write_part

RETENTION_DAYS = 2


def days_of_appends(path: Path, days: int, appends: int = 3) -> MasterTable:
    """A master with so many appends of two records on each day."""
    master, offset = MasterTable.open(path), 0
    for day in range(days):
        for _ in range(appends):
            append(master, range(offset, offset + 2), day=DAY + timedelta(days=day))
            offset += 2
    return master


def offsets(table: DeltaTable) -> list[int]:
    return sorted(table.to_pyarrow_table(columns=["offset"])["offset"].to_pylist())


def make_older(path: Path, days: int) -> None:
    """Set the files of the table and of its log back, as if nothing had happened for so long."""
    for file in path.rglob("*"):
        then = file.stat().st_mtime - days * 86_400
        os.utime(file, (then, then))


def test_small_files_of_each_day_become_one(tmp_path: Path) -> None:
    days_of_appends(tmp_path, 5)

    report = maintain_now(tmp_path)

    assert (report.merged_days, report.merged_files, report.live_files) == (5, 15, 5)
    assert offsets(DeltaTable(str(tmp_path))) == [*range(30)]
    assert maintain_now(tmp_path).merged_days == 0


def test_ingest_that_is_open_appends_after_a_merge(tmp_path: Path) -> None:
    master = days_of_appends(tmp_path, 2)
    maintain_now(tmp_path)

    append(master, [12])

    assert offsets(DeltaTable(str(tmp_path))) == [*range(13)]
    assert master.refresh() == read_extent(tmp_path) == MasterTable.open(tmp_path).extent


def test_version_that_a_rebuild_has_pinned_stays_readable(tmp_path: Path) -> None:
    days_of_appends(tmp_path, 3)
    pinned = DeltaTable(str(tmp_path)).version()

    report = maintain_now(tmp_path)

    assert report.removed_files == 0
    assert offsets(DeltaTable(str(tmp_path), version=pinned)) == [*range(18)]


def test_files_of_a_killed_append_are_removed_once_they_are_old(tmp_path: Path) -> None:
    days_of_appends(tmp_path, 1)
    left = write_part(tmp_path, [77])

    assert maintain_now(tmp_path).removed_files == 0

    make_older((tmp_path / left.path).parent, RETENTION_DAYS + 1)
    assert maintain_now(tmp_path).removed_files == 1
    assert offsets(DeltaTable(str(tmp_path))) == [*range(6)]


def test_forty_days_of_maintenance_alone_leave_the_offsets_as_they_are(tmp_path: Path) -> None:
    extent = days_of_appends(tmp_path, 40).extent
    log = tmp_path / "_delta_log"
    merges = [*plan_merges(read_live_files(DeltaTable(str(tmp_path))))]

    # One day is merged on each.
    for merge in merges:
        commit_merge(DeltaTable(str(tmp_path)), tmp_path, merge, datetime.now(UTC))
        make_older(log, 1)
        maintain_log(tmp_path)

    assert len(merges) == 40
    assert read_extent(tmp_path) == MasterTable.open(tmp_path).extent == extent
    assert len([*log.glob("*.json")]) <= 12, "the log is cleaned up"
    assert offsets(DeltaTable(str(tmp_path))) == [*range(240)]


def maintain_log(path: Path) -> None:
    table = DeltaTable(str(path))
    table.create_checkpoint()
    table.cleanup_metadata()


def test_second_maintenance_that_has_seen_the_same_files_is_refused(tmp_path: Path) -> None:
    master = days_of_appends(tmp_path, 1)
    first, second = (DeltaTable(str(tmp_path)) for _ in range(2))
    [merge] = plan_merges(read_live_files(first))
    commit_merge(first, tmp_path, merge, datetime.now(UTC))
    append(master, [6])

    with pytest.raises(AlreadyRunning, match="another maintenance has merged meanwhile"):
        commit_merge(second, tmp_path, merge, datetime.now(UTC))

    assert offsets(DeltaTable(str(tmp_path))) == [*range(7)]


def test_negative_control_two_merges_without_a_common_name_repeat_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days_of_appends(tmp_path, 1)
    first, second = (DeltaTable(str(tmp_path)) for _ in range(2))
    [merge] = plan_merges(read_live_files(first))
    commit_merge(first, tmp_path, merge, datetime.now(UTC))
    monkeypatch.setattr("batch_layer.master.maintenance.WRITER", "another")

    commit_merge(second, tmp_path, merge, datetime.now(UTC))

    assert Counter(offsets(DeltaTable(str(tmp_path)))) == Counter([*range(6), *range(6)])


def test_missing_master_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(TallyError, match="tally up master"):
        maintain_now(tmp_path / "master")


SIZES = st.lists(st.integers(1, 300), max_size=12)


def select(sizes: Sequence[int], full: int) -> list[int]:
    """The sizes of the files that are merged."""
    files = [LiveFile(size, str(number)) for number, size in enumerate(sizes)]
    return [file.size for file in select_small(files, full)]


def merged(sizes: Sequence[int], chosen: Sequence[int]) -> list[int]:
    rest = Counter(sizes)
    rest.subtract(chosen)
    return [*rest.elements(), sum(chosen)]


@given(SIZES)
def test_merging_until_nothing_is_to_gain_leaves_two_small_files_at_most(sizes: list[int]) -> None:
    held = sizes
    while chosen := select(held, 100):
        assert len(chosen) > 1
        held = merged(held, chosen)

    assert sum(held) == sum(sizes)
    assert len([size for size in held if size < 100]) <= 2


@given(st.integers(10, 200))
def test_late_records_of_a_large_day_rewrite_it_seldom(appends: int) -> None:
    held, rewritten = [10_000], 0
    for _ in range(appends):
        held.append(1)
        if chosen := select(held, 1_000_000):
            rewritten += sum(chosen)
            held = merged(held, chosen)

    # Merging all each time would rewrite 10,000 for each.
    assert rewritten <= appends * appends


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [([1, 1, 1], [1, 1, 1]), ([90, 1, 1], [1, 1]), ([90, 1], []), ([90, 20, 5], [5, 20, 90])],
)
def test_largest_file_is_left_alone_while_the_others_are_small(
    sizes: list[int], expected: list[int]
) -> None:
    assert select(sizes, 100) == expected


def test_days_are_planned_in_order_and_full_files_left_out() -> None:
    small, full = [LiveFile(1, "a"), LiveFile(1, "b")], [LiveFile(100, "c"), LiveFile(100, "d")]
    later = DAY + timedelta(days=1)

    plan = plan_merges(
        {
            SourceDay("sales", later): small,
            SourceDay("sales", DAY): small,
            SourceDay("x", DAY): full,
        },
        100,
    )

    assert [merge.of.day for merge in plan] == [DAY, later]
