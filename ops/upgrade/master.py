"""A master dataset of 0.1.0-rc1, which stated its offsets in the notes of its commits."""

import shutil
from pathlib import Path

import msgspec
from deltalake import DeltaTable

from batch_layer.master.extent import EMPTY_EXTENT, MasterExtent, load_extent
from batch_layer.master.files import merge_files
from batch_layer.master.maintenance import read_live_files
from batch_layer.master.table import MasterTable
from runtime.kafka.log_identity import RecordFingerprint
from runtime.kafka.offsets import parse_offsets
from runtime.process.output import show_progress
from tally.errors import DataLoss


class _Note(msgspec.Struct):
    """What a commit said of the offsets held after it."""

    topic_ids: dict[str, str]
    until: dict[str, dict[str, int]]
    marks: dict[str, dict[str, RecordFingerprint]] = {}


def is_of_earlier_release(path: Path) -> bool:
    """Whether there are records, and offsets that only notes state."""
    if not DeltaTable.is_deltatable(str(path)):
        return False
    table = DeltaTable(str(path))
    return bool(table.file_uris()) and load_extent(table) == EMPTY_EXTENT


def upgrade_master(path: Path) -> int:
    """Write the records in today's layout, one file for each source and day; return their count.

    The earlier dataset stays beside the new one. Raises DataLoss when no commit states offsets.
    """
    old, arriving = DeltaTable(str(path)), path.with_name(f"{path.name}.arriving")
    extent, live = _read_noted_extent(old), read_live_files(old)
    shutil.rmtree(arriving, ignore_errors=True)
    new, parts = MasterTable.open(arriving), []
    with show_progress("master dataset: days", len(live)) as advance:
        for of, files in sorted(live.items()):
            paths = [str(path.absolute() / file.path) for file in files]
            parts += merge_files(str(arriving), of, paths)
            advance(1)
    new.append(parts, extent)
    path.rename(path.with_name(f"{path.name}-0.1.0-rc1"))
    arriving.rename(path)
    return sum(part.rows for part in parts)


def _read_noted_extent(table: DeltaTable) -> MasterExtent:
    for commit in table.history():
        if text := commit.get("userMetadata"):
            note = msgspec.json.decode(text, type=_Note)
            fingerprints = {
                topic: {int(number): last for number, last in by_partition.items()}
                for topic, by_partition in note.marks.items()
            }
            return MasterExtent(note.topic_ids, parse_offsets(note.until), fingerprints)
    raise DataLoss(f"master dataset {table.table_uri}: no commit states its offsets")
