"""Masters without Spark and Kafka: the files of appends are written as Spark's tasks write them."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from batch_layer.master.extent import MasterExtent
from batch_layer.master.files import MASTER_COLUMNS, FilePart, SourceDay, write_file
from batch_layer.master.maintenance import MaintenanceReport, maintain
from batch_layer.master.progress import last_fingerprints
from batch_layer.master.table import MasterTable

DAY = date(2026, 11, 1)
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
COLUMNS = pa.schema([*MASTER_COLUMNS, ("sha256", pa.string())])


def record(offset: int, partition: int = 0) -> dict[str, object]:
    """A master record of the sales topic, with the digest that an append adds."""
    return {
        "source": "sales",
        "event_date": DAY,
        "store_id": "7",
        "event_id": f"e{partition}-{offset}",
        "happened_at": NOON + timedelta(seconds=offset),
        "fingerprint": "f",
        "partition": partition,
        "offset": offset,
        "committed_at": NOON + timedelta(seconds=offset + 1),
        "value": f'{{"offset": {offset}}}',
        "sha256": f"{offset:015x}",
    }


def write_part(path: Path, offsets: Iterable[int], day: date = DAY) -> FilePart:
    """One file of these records of partition 0, which no commit names yet."""
    rows = pa.RecordBatch.from_pylist([record(offset) for offset in offsets], schema=COLUMNS)
    [part] = write_file(str(path), SourceDay("sales", day), [rows])
    return part


def append(
    master: MasterTable, offsets: Iterable[int], until: int | None = None, day: date = DAY
) -> None:
    """One append of sales records to partition 0, with the offset held after it."""
    part = write_part(master.path, offsets, day)
    end = part.last_offset + 1 if until is None else until
    fingerprints = last_fingerprints([part])
    master.append([part], MasterExtent({"sales": TOPIC_ID}, {"sales": {0: end}}, fingerprints))


def maintain_now(path: Path) -> MaintenanceReport:
    """One run of the maintenance."""
    return maintain(path, datetime.now(UTC))
