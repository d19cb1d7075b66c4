"""What the master dataset states that it holds, and what an append writes of it."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from batch_layer.master.extent import (
    EMPTY_EXTENT,
    WRITER,
    MasterExtent,
    load_extent,
    read_extent,
)
from batch_layer.master.files import MASTER_COLUMNS, PARTITIONED_BY
from batch_layer.master.table import MasterTable
from batch_layer.master.verify import verify
from runtime.kafka.log_identity import fingerprint_record
from tally.errors import AlreadyRunning, DataLoss
from tests.unit.batch.master.masters import TOPIC_ID, append, maintain_now, record

# As librdkafka writes them, with + and /.
TOPIC_IDS = st.binary(min_size=16, max_size=16).map(
    lambda given: b64encode(given).decode().rstrip("=")
)
OFFSETS = st.integers(0, 2**53)
LAST = st.builds(fingerprint_record, OFFSETS, st.integers(0, 2**53), st.binary())
PARTITIONS = st.lists(st.tuples(OFFSETS, st.none() | LAST), min_size=1, max_size=5)

HELD = MasterExtent(
    {"sales": TOPIC_ID}, {"sales": {0: 1}}, {"sales": {0: fingerprint_record(0, 1, b"")}}
)


class Numbers:
    """The transaction identifiers of a table, as its commits have left them."""

    def __init__(self) -> None:
        self.held: dict[str, int] = {}

    def commit(self, after: MasterExtent, before: MasterExtent) -> list[str]:
        """Take an append's numbers; return their names."""
        written = after.transactions(before, 1)
        self.held |= {number.app_id: number.version for number in written}
        return [number.app_id for number in written]

    def transaction_version(self, name: str) -> int | None:
        """As DeltaTable has it."""
        return self.held.get(name)


@st.composite
def extents(draw: st.DrawFn) -> MasterExtent:
    topics = draw(st.dictionaries(st.sampled_from(["sales", "traffic", "wifi"]), TOPIC_IDS))
    places = {topic: draw(PARTITIONS) for topic in topics}
    until = {
        topic: {at: held[0] for at, held in enumerate(found)} for topic, found in places.items()
    }
    last = {
        topic: {at: held[1] for at, held in enumerate(found) if held[1]}
        for topic, found in places.items()
    }
    return MasterExtent(topics, until, last)


def load(numbers: Numbers) -> MasterExtent:
    table: Any = numbers
    return load_extent(table, ["sales", "traffic", "wifi"])


@given(extents())
def test_extent_is_read_as_it_was_written(extent: MasterExtent) -> None:
    numbers = Numbers()
    numbers.commit(extent, EMPTY_EXTENT)

    assert load(numbers) == extent


@given(extents(), st.integers(1, 9))
def test_append_writes_only_what_has_changed(before: MasterExtent, more: int) -> None:
    numbers = Numbers()
    numbers.commit(before, EMPTY_EXTENT)
    until = {
        topic: {at: offset + more * (at == 0) for at, offset in offsets.items()}
        for topic, offsets in before.until.items()
    }
    after = MasterExtent(before.topic_ids, until, before.fingerprints)

    names = numbers.commit(after, before)

    assert names == [WRITER, *(f"{topic}/0/until" for topic in sorted(until))]
    assert load(numbers) == after


def test_digest_keeps_its_leading_zeros(tmp_path: Path) -> None:
    master = MasterTable.open(tmp_path)
    append(master, [0, 1])

    [last] = read_extent(tmp_path).fingerprints["sales"].values()

    assert (last.offset, last.sha256) == (1, "000000000000001")


def test_folder_without_a_table_holds_nothing(tmp_path: Path) -> None:
    assert read_extent(tmp_path) == EMPTY_EXTENT


def test_version_states_what_it_holds_and_not_what_came_later(tmp_path: Path) -> None:
    master = MasterTable.open(tmp_path)
    for end in (5, 9):
        append(master, range(end - 3, end))
    maintain_now(tmp_path)

    stated = [load_extent(DeltaTable(str(tmp_path), version=at)).until for at in range(4)]

    assert stated == [{}, *({"sales": {0: end}} for end in (5, 9, 9))]


def test_of_two_ingesters_that_have_seen_the_same_version_one_appends(tmp_path: Path) -> None:
    first, second = MasterTable.open(tmp_path), MasterTable.open(tmp_path)
    append(first, [0, 1])

    with pytest.raises(AlreadyRunning, match="another ingester has appended since version 0"):
        append(second, [0, 1])

    # After a restart it sees what the other one has appended.
    assert second.refresh() == MasterTable.open(tmp_path).extent == first.extent


def test_master_whose_offsets_are_unknown_is_refused(tmp_path: Path) -> None:
    rows = pa.Table.from_pylist([record(0)], schema=MASTER_COLUMNS)
    write_deltalake(str(tmp_path), rows, partition_by=PARTITIONED_BY)

    with pytest.raises(DataLoss, match="it has records and states no offsets"):
        MasterTable.open(tmp_path)


def test_table_that_is_gone_is_no_empty_table(tmp_path: Path) -> None:
    master = MasterTable.open(tmp_path / "master")
    append(master, [0])
    (tmp_path / "master").rename(tmp_path / "elsewhere")

    with pytest.raises(DataLoss, match="is gone; restore it"):
        master.refresh()


def test_columns_of_a_later_release_are_added_and_null_before(tmp_path: Path) -> None:
    earlier = pa.schema([column for column in MASTER_COLUMNS if column.name != "sender"])
    rows = pa.Table.from_pylist([record(0)], schema=earlier)
    numbers = CommitProperties(app_transactions=HELD.transactions(EMPTY_EXTENT, 1))
    write_deltalake(str(tmp_path), rows, partition_by=PARTITIONED_BY, commit_properties=numbers)

    append(MasterTable.open(tmp_path), [1])

    table = DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert table.schema.names == MASTER_COLUMNS.names
    assert table["sender"].to_pylist() == [None, None]
    assert verify(tmp_path).ok and maintain_now(tmp_path).live_files == 1
    assert verify(tmp_path).ok
