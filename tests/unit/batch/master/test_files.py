"""The files of an append hold each record once, whatever batches Spark hands over."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from batch_layer.master.extent import MasterExtent
from batch_layer.master.files import MASTER_COLUMNS, SourceDay, read_bounds, write_days, write_file
from batch_layer.master.progress import last_fingerprints
from batch_layer.master.table import MasterTable
from runtime.kafka.log_identity import RecordFingerprint
from tests.unit.batch.master.masters import DAY, NOON, TOPIC_ID, record

# Source, days after DAY, partition; whether it can be read.
PLACES = st.tuples(
    st.sampled_from(["sales", "traffic"]), st.integers(0, 2), st.integers(0, 1), st.booleans()
)
COLUMNS = pa.schema([*MASTER_COLUMNS, ("sha256", pa.string())])
FIRST_YEAR = datetime(1, 1, 1, tzinfo=UTC)


def records_of(places: Sequence[tuple[str, int, int, bool]]) -> list[dict[str, object]]:
    """A record at each place, in the order that Spark brings them into."""
    made = []
    for offset, (source, days, partition, is_readable) in enumerate(places):
        own = record(offset, partition) | {"source": source, "event_date": DAY + timedelta(days)}
        if not is_readable:
            own |= dict.fromkeys(("store_id", "event_id", "happened_at", "fingerprint"))
        made.append(own)
    order = ("source", "event_date", "partition", "offset")
    return sorted(made, key=lambda own: [own[name] for name in order])


def batches_of(records: Sequence[dict[str, object]], size: int) -> list[pa.RecordBatch]:
    begins = range(0, len(records), size)
    return [pa.RecordBatch.from_pylist(records[at : at + size], COLUMNS) for at in begins]


@given(st.lists(PLACES, min_size=1, max_size=12), st.integers(1, 5))
def test_files_hold_each_record_once_in_any_batches(
    places: list[tuple[str, int, int, bool]], size: int
) -> None:
    records = records_of(places)
    with TemporaryDirectory() as folder:
        master = MasterTable.open(Path(folder))
        files = [*write_days(folder, batches_of(records, size))]
        parts = [part for file in files for part in file]
        until = {name: {0: 1, 1: 1} for name in ("sales", "traffic")}
        ids = dict.fromkeys(until, TOPIC_ID)
        master.append(parts, MasterExtent(ids, until))
        held = DeltaTable(folder).to_pyarrow_table().select(MASTER_COLUMNS.names)

    expected = pa.Table.from_pylist(records, MASTER_COLUMNS)
    assert held.cast(MASTER_COLUMNS).sort_by("offset") == expected.sort_by("offset")
    assert len(files) == len({(row["source"], row["event_date"]) for row in records})
    assert sum(part.rows for part in parts) == len(records)
    assert last_fingerprints(parts) == last_of(records)


def last_of(records: Sequence[dict[str, object]]) -> dict[str, dict[int, RecordFingerprint]]:
    """The last record of each partition, by a plain loop."""
    found: dict[str, dict[int, RecordFingerprint]] = {}
    for row in sorted(records, key=lambda own: str(own["sha256"])):
        offset, committed_at = row["offset"], row["committed_at"]
        assert isinstance(offset, int) and isinstance(committed_at, datetime)
        last = RecordFingerprint(offset, int(committed_at.timestamp() * 1000), str(row["sha256"]))
        found.setdefault(str(row["source"]), {})[int(str(row["partition"]))] = last
    return found


def test_each_record_of_many_days_lies_in_the_file_of_its_day(tmp_path: Path) -> None:
    records = records_of([("sales", days, 0, True) for days in range(1_500)] * 2)
    offsets: dict[object, list[object]] = defaultdict(list)
    for row in records:
        offsets[row["event_date"]].append(row["offset"])

    written = [part for [part] in write_days(str(tmp_path), batches_of(records, len(records)))]

    held = {
        part.event_date: pq.ParquetFile(tmp_path / part.path).read(["offset"])["offset"].to_pylist()
        for part in written
    }
    assert held == offsets


def test_instants_of_the_first_year_are_statistics_too(tmp_path: Path) -> None:
    early = record(0) | {"happened_at": FIRST_YEAR, "event_date": FIRST_YEAR.date()}
    [[part]] = write_days(str(tmp_path), batches_of([early], 1))
    master = MasterTable.open(tmp_path)

    master.append([part], MasterExtent({"sales": TOPIC_ID}, {"sales": {0: 1}}))

    files = DeltaTable(str(tmp_path)).get_add_actions(flatten=True)
    assert files["max.happened_at"].to_pylist() == [FIRST_YEAR]
    assert DeltaTable(str(tmp_path)).to_pyarrow_table()["happened_at"].to_pylist() == [FIRST_YEAR]


@pytest.mark.parametrize("size", [4_096, 4_097, 1_000_000])
def test_reader_of_delta_rs_finds_a_text_that_is_too_long_for_bounds(
    tmp_path: Path, size: int
) -> None:
    texts = ["a", "x" * size]
    records = [record(offset) | {"value": text} for offset, text in enumerate(texts)]
    batch = pa.RecordBatch.from_pylist(records, schema=COLUMNS)
    parts = write_file(str(tmp_path), SourceDay("sales", DAY), [batch])
    master = MasterTable.open(tmp_path)
    master.append(parts, MasterExtent({"sales": TOPIC_ID}, {"sales": {0: 2}}, {}))

    table = DeltaTable(str(tmp_path))
    found = [len(table.to_pyarrow_table(filters=[("value", "=", text)])) for text in texts]

    assert found == [1, 1]


@pytest.mark.parametrize(
    ("column", "value", "rows"),
    [
        ("store_id", "7", 3),
        ("store_id", "8", 0),
        ("event_id", "e0-1", 1),
        ("value", "x" * 40 + "2", 1),
        ("committed_at", NOON + timedelta(seconds=2), 1),
        ("offset", 2, 1),
        ("sender", "till", 0),
    ],
)
def test_reader_of_delta_rs_finds_rows_by_any_column(
    tmp_path: Path, column: str, value: object, rows: int
) -> None:
    records = [record(offset) | {"value": "x" * 40 + str(offset)} for offset in range(3)]
    batch = pa.RecordBatch.from_pylist(records, schema=COLUMNS)
    parts = write_file(str(tmp_path), SourceDay("sales", DAY), [batch])
    master = MasterTable.open(tmp_path)
    master.append(parts, MasterExtent({"sales": TOPIC_ID}, {"sales": {0: 3}}, {}))

    found = DeltaTable(str(tmp_path)).to_pyarrow_table(filters=[(column, "=", value)])

    assert len(found) == rows


def test_bounds_of_long_texts_are_short_and_hold_the_texts(tmp_path: Path) -> None:
    file = tmp_path / "texts.parquet"
    texts = ["a" * 40, "b" * 40, None]
    pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), file)

    bounds = read_bounds(pq.read_metadata(file))

    assert bounds["minValues"] == {"text": "a" * 32} and bounds["nullCount"] == {"text": 1}
    greatest = bounds["maxValues"]["text"]
    assert len(greatest) == 33 and greatest > "b" * 40
