"""The master dataset as it is on disk, read by DuckDB: no code of the pipeline takes part."""

from dataclasses import dataclass
from datetime import UTC, datetime

import duckdb
from deltalake import DeltaTable

from tally.errors import TallyError
from tally.settings import Settings
from tally.windows import WINDOW

_SECONDS = int(WINDOW.total_seconds())

# First by offset wins; the same fingerprint again is a duplicate, another one a conflict.
_FATES = """
    WITH records AS (SELECT *, first_value(fingerprint) OVER identity AS kept, row_number() OVER identity AS copy
                     FROM (SELECT DISTINCT source, store_id, event_id, fingerprint, "partition", "offset" FROM master)
                     WINDOW identity AS (PARTITION BY source, store_id, event_id ORDER BY "offset"))
    SELECT source, "partition", count(*), count(*) FILTER (copy = 1),
           count(*) FILTER (copy > 1 AND fingerprint = kept), count(*) FILTER (copy > 1 AND fingerprint <> kept)
    FROM records GROUP BY ALL ORDER BY ALL
"""
_ROWS = 'SELECT source, "partition", count(*) FROM master GROUP BY ALL'
_CANONICAL_OF_RAW = """
    SELECT source, CAST(json_extract(value, '$.raw_partition') AS INTEGER), count(*) FROM master GROUP BY ALL
"""
_WINDOW_EVENTS = f"""
    SELECT store_id, CAST(floor(epoch(happened_at) / {_SECONDS}) AS BIGINT) * {_SECONDS} AS window_epoch, count(DISTINCT event_id)
    FROM master WHERE source = ? GROUP BY ALL
"""  # no input in it


@dataclass(frozen=True)
class Fates:
    """Distinct records of one canonical topic-partition in the master dataset, and what became of them."""

    distinct: int
    counted: int
    duplicate: int
    conflict: int


class Master:
    """One version of the master dataset, open for questions."""

    def __init__(self, settings: Settings) -> None:
        if not DeltaTable.is_deltatable(str(settings.master_path)):
            raise TallyError(f"no master dataset in {settings.master_path}; start its ingest with `tally up master`")
        table = DeltaTable(str(settings.master_path))
        self.version = table.version()
        self._database = duckdb.connect()
        self._database.execute("SET TimeZone = 'UTC'")
        self._database.execute(
            "CREATE VIEW master AS SELECT * FROM read_parquet($files, hive_partitioning = true)".replace("$files", _listed(table))
        )

    def fates(self) -> dict[tuple[str, int], Fates]:
        """By (family, partition): counted, duplicate, conflict."""
        rows = self._database.execute(_FATES).fetchall()
        return {(source, partition): Fates(*counts) for source, partition, *counts in rows}

    def rows(self) -> dict[tuple[str, int], int]:
        """Rows by (family, partition), repeated coordinates included."""
        return {(source, partition): count for source, partition, count in self._database.execute(_ROWS).fetchall()}

    def canonical_of_raw(self) -> dict[tuple[str, int], int]:
        """Canonical records by (family, partition of the raw record)."""
        return {(source, partition): count for source, partition, count in self._database.execute(_CANONICAL_OF_RAW).fetchall()}

    def window_events(self, family: str) -> dict[tuple[str, datetime], int]:
        """Distinct events by (store, window start): what a rebuild of this version considers."""
        rows = self._database.execute(_WINDOW_EVENTS, [family]).fetchall()
        return {(store, datetime.fromtimestamp(start, UTC)): events for store, start, events in rows}


def _listed(table: DeltaTable) -> str:
    quoted = ", ".join("'" + uri.removeprefix("file://").replace("'", "''") + "'" for uri in table.file_uris())
    return f"[{quoted}]"
