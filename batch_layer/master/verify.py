"""`python -m batch_layer.master.verify`: checks that the master dataset holds each record once.

It goes on where the last verification ended, and reads only files that are new since, such as
merged ones. The rows of all live files must be those that were verified before, and records beyond
them, each once: by their number and a digest of their offsets. `--full` reads every file.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import duckdb
import msgspec
from deltalake import DeltaTable

from batch_layer.master.extent import load_extent
from batch_layer.master.positions import offset_at
from runtime.kafka.offsets import TopicOffsets
from runtime.process.files import write_atomically
from runtime.process.job import DONE, FAILED, run_command
from tally.config.settings import Settings
from tally.errors import TallyError

# In one statement: the names of a hundred thousand files would be megabytes of SQL.
_FILES_AT_ONCE = 1_000
_TABLES = """
    CREATE TABLE found (file VARCHAR, source VARCHAR, number INTEGER, place BIGINT);
    CREATE TABLE reached (source VARCHAR, number INTEGER, highest BIGINT);
"""
_READ = """
    INSERT INTO found SELECT filename, source, "partition", "offset" FROM read_parquet(
        ?, filename = true, hive_partitioning = true, hive_types = {'event_date': DATE})
"""
_BY_FILE = """
    SELECT file, source, number, count(*), bit_xor(hash(place)) FROM found GROUP BY ALL
"""
_BEYOND = """
    SELECT source, number, count(*), bit_xor(hash(place)), min(place), max(place) FROM (
        SELECT DISTINCT source, number, place FROM found LEFT JOIN reached USING (source, number)
        WHERE place > coalesce(highest, -1))
    GROUP BY ALL
"""


class RowSet(NamedTuple):
    """A number of rows, and the exclusive or of their offsets' hashes: it tells sets apart."""

    number: int = 0
    digest: int = 0

    def plus(self, number: int, digest: int) -> "RowSet":
        """These rows and as many more."""
        return RowSet(self.number + number, self.digest ^ digest)


class VerifiedPartition(msgspec.Struct, frozen=True):
    """What the master holds of one canonical topic-partition.

    rows: of all live files; once: the records that it must hold, each once; lowest, highest: their
    offsets; until: the first offset not held (0: none is held).
    """

    source: str
    partition: int
    rows: RowSet
    once: RowSet
    lowest: int
    highest: int
    until: int

    @property
    def ok(self) -> bool:
        """Whether each record is present once and lies below the end that the table claims."""
        return self.rows == self.once and self.highest < self.until


class FileRows(msgspec.Struct, frozen=True):
    """The rows of one partition in one file, whose name begins at the table's folder."""

    file: str
    source: str
    partition: int
    rows: RowSet


class VerifiedState(msgspec.Struct, frozen=True):
    """What a verification leaves for the next one."""

    lines: Sequence[VerifiedPartition] = ()
    files: Sequence[FileRows] = ()


@dataclass(frozen=True)
class Verification:
    """Result of a verification: of which version, and how many of its live files were read."""

    version: int
    files: int
    files_read: int
    lines: Sequence[VerifiedPartition]

    @property
    def ok(self) -> bool:
        """Whether the master dataset agrees with its own offsets."""
        return all(line.ok for line in self.lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Verify and return the exit code: 0 correct, 1 something is wrong or there is no master.

    Prints one JSON object on standard output.
    """
    parser = argparse.ArgumentParser(
        prog="python -m batch_layer.master.verify",
        description="Check that the master dataset holds each record once.",
    )
    parser.add_argument("--full", action="store_true", help="read every file again")
    given = parser.parse_args(argv)

    def work() -> int:
        found = verify(Settings.load().master_path, is_full=given.full)
        print(json.dumps({"ok": found.ok, **msgspec.to_builtins(found)}))
        return DONE if found.ok else FAILED

    return run_command("master verify", work)


def verify(path: Path, *, is_full: bool = False) -> Verification:
    """Verify the newest version. Raises TallyError when there is no table."""
    if not DeltaTable.is_deltatable(str(path)):
        raise TallyError(f"no master dataset in {path}; start its ingest with `tally up master`")
    table = DeltaTable(str(path))
    notes = path.with_name(f"{path.name}-verified.json")
    before = VerifiedState() if is_full else _load_state(notes)
    live = table.get_add_actions()["path"].to_pylist()
    known = {part.file for part in before.files}
    unread = sorted({*live} - known)
    with duckdb.connect() as database:
        _read(database, path, before, unread)
        parts = [part for part in before.files if part.file in {*live}]
        parts += _read_parts(database, path)
        beyond = database.execute(_BEYOND).fetchall()
    lines = _compare(before, parts, beyond, load_extent(table).until)
    found = Verification(table.version(), len(live), len(unread), lines)
    # What is wrong is found again by the next verification.
    if found.ok:
        write_atomically(notes, msgspec.json.encode(VerifiedState(lines, parts)))
    return found


def _load_state(notes: Path) -> VerifiedState:
    if not notes.is_file():
        return VerifiedState()
    try:
        return msgspec.json.decode(notes.read_bytes(), type=VerifiedState)
    except msgspec.DecodeError as error:
        raise TallyError(f"{notes}: {error}; remove it, or verify with --full") from error


def _read(
    database: duckdb.DuckDBPyConnection, path: Path, before: VerifiedState, files: Sequence[str]
) -> None:
    """Load the offsets in the files, and the highest offsets that were verified before."""
    database.execute(_TABLES)
    if before.lines:
        database.executemany(
            "INSERT INTO reached VALUES (?, ?, ?)",
            [(line.source, line.partition, line.highest) for line in before.lines],
        )
    for first in range(0, len(files), _FILES_AT_ONCE):
        names = [str(path / name) for name in files[first : first + _FILES_AT_ONCE]]
        database.execute(_READ, [names])


def _read_parts(database: duckdb.DuckDBPyConnection, path: Path) -> list[FileRows]:
    rows = database.execute(_BY_FILE).fetchall()
    return [
        FileRows(str(Path(file).relative_to(path)), source, number, RowSet(*counted))
        for file, source, number, *counted in rows
    ]


def _compare(
    before: VerifiedState,
    parts: Sequence[FileRows],
    beyond: Sequence[tuple[str, int, int, int, int, int]],
    until: TopicOffsets,
) -> list[VerifiedPartition]:
    """One line for each partition, ascending.

    beyond: of each partition's records beyond those verified before, each once, the number, digest,
    lowest and highest offset.
    """
    rows: dict[tuple[str, int], RowSet] = defaultdict(RowSet)
    for part in parts:
        place = part.source, part.partition
        rows[place] = rows[place].plus(*part.rows)
    once = {
        (line.source, line.partition): (line.once, line.lowest, line.highest)
        for line in before.lines
    }
    for source, number, count, digest, lowest, highest in beyond:
        place = source, number
        earlier, first, _ = once.get(place, (RowSet(), lowest, highest))
        once[place] = earlier.plus(count, digest), first, highest
    lines = []
    for place, (held, lowest, highest) in sorted(once.items()):
        end = offset_at(until, *place)
        lines.append(VerifiedPartition(*place, rows[place], held, lowest, highest, end))
    return lines


if __name__ == "__main__":
    sys.exit(main())
