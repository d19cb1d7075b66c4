"""`python -m batch_layer.master.verify`: checks the master dataset against its own notes.

It must hold each record once, and each append must begin where the one before ended.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise, starmap
from pathlib import Path

import duckdb
from deltalake import DeltaTable

from batch_layer.master.positions import MasterExtent, offset_at, parse_extent, read_extent
from runtime.process.job import DONE, FAILED, run_command
from tally.config.settings import Settings
from tally.errors import TallyError

_COUNTS = """
    SELECT source, "partition", count(*), count(DISTINCT "offset"), min("offset"), max("offset")
    FROM master GROUP BY ALL ORDER BY ALL
"""


@dataclass(frozen=True)
class VerifiedPartition:
    """Counts and offsets of one canonical topic-partition.

    distinct: distinct offsets; until: the first offset not held (0: none is held).
    """

    source: str
    partition: int
    rows: int
    distinct: int
    lowest: int
    highest: int
    until: int

    @property
    def ok(self) -> bool:
        """Whether each record is present once and lies below the end that the table claims."""
        return self.rows == self.distinct and self.highest < self.until


@dataclass(frozen=True)
class Verification:
    """Result of a verification; each append that steps back before the last one has a sentence."""

    version: int
    lines: Sequence[VerifiedPartition]
    steps_back: Sequence[str]

    @property
    def ok(self) -> bool:
        """Whether the master dataset agrees with its own notes."""
        return not self.steps_back and all(line.ok for line in self.lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Verify and return the exit code: 0 correct, 1 something is wrong or there is no master.

    Prints one JSON object on standard output.
    """
    if list(sys.argv[1:] if argv is None else argv):
        print("usage: python -m batch_layer.master.verify (it takes no arguments)", file=sys.stderr)
        return 2

    def work() -> int:
        found = verify(Settings.load().master_path)
        print(json.dumps({"ok": found.ok, **asdict(found)}))
        return DONE if found.ok else FAILED

    return run_command("master verify", work)


def verify(path: Path) -> Verification:
    """Verify the newest version. Raises TallyError when there is no table."""
    if not DeltaTable.is_deltatable(str(path)):
        raise TallyError(f"no master dataset in {path}; start its ingest with `tally up master`")
    table = DeltaTable(str(path))
    until = read_extent(path, table.version()).until
    # Only the counted columns are read: the records themselves stay on disk.
    master = table.to_pyarrow_table(columns=["source", "partition", "offset"])
    with duckdb.connect() as database:
        rows = database.register("master", master).execute(_COUNTS).fetchall()
    with_ends = ((*row, offset_at(until, *row[:2])) for row in rows)
    lines = [*starmap(VerifiedPartition, with_ends)]
    regressions = find_regressions(_read_appends(table))
    return Verification(table.version(), lines, [*regressions])


def find_regressions(appends: Sequence[MasterExtent]) -> Iterator[str]:
    """Yield a sentence for each append that ends below the one before it in some partition.

    Appends are ordered oldest first. A changed topic id under the same name is reported too.
    """
    for before, after in pairwise(appends):
        # The offset at which an append begins is not recorded: an append that ends lower than the
        # one before has repeated its records, or missed them.
        for topic, offsets in before.until.items():
            if before.topic_ids.get(topic) != after.topic_ids.get(topic):
                yield f"topic {topic} was deleted and created again"
            for number, offset in offsets.items():
                if offset_at(after.until, topic, number) < offset:
                    yield f"topic {topic} partition {number} goes back below offset {offset}"


def _read_appends(table: DeltaTable) -> list[MasterExtent]:
    """The notes of all appends that left one, oldest first."""
    notes = [note for commit in table.history() if (note := commit.get("userMetadata"))]
    return [parse_extent(note) for note in reversed(notes)]


if __name__ == "__main__":
    sys.exit(main())
