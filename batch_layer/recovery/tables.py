"""What Cassandra holds about the master dataset, computed from the master's files once more."""

import shutil
from collections.abc import Sequence
from datetime import date
from functools import partial

import duckdb
from cassandra.cluster import Session
from deltalake import DeltaTable

from batch_layer.links.changed_days import upsert_days
from batch_layer.links.ingest_links import IngestLinks
from batch_layer.master.extent import MasterExtent
from batch_layer.master.progress import upsert_first_arrivals, upsert_position
from runtime.kafka.offsets import TopicOffsets
from tally.config.settings import Settings

# first_arrival: milliseconds since 1970, null where no record can be read.
_DAYS = """
    SELECT source, event_date, "partition", max("offset") + 1,
        min(epoch_ms(committed_at)) FILTER (event_id IS NOT NULL)
    FROM read_parquet($files, hive_partitioning = true, hive_types = {'event_date': DATE})
    GROUP BY ALL
"""


# The normaliser's records name the raw records that they came from.
_RAW_ENDS = """
    SELECT source, CAST(json_extract(value, '$.raw_partition') AS INTEGER) AS number,
        max(CAST(json_extract(value, '$.raw_offset') AS BIGINT)) + 1
    FROM read_parquet($files, hive_partitioning = true) WHERE event_id IS NOT NULL
    GROUP BY ALL HAVING number IS NOT NULL
"""


def read_raw_ends(settings: Settings) -> dict[tuple[str, int], int]:
    """The offset behind the last raw record that the master knows of, by family and partition."""
    files = DeltaTable(str(settings.master_path)).file_uris()
    if not files:
        return {}
    with duckdb.connect() as database:
        found = database.execute(_RAW_ENDS, {"files": files}).fetchall()
    return {(source, partition): end for source, partition, end in found}


def rebuild_registers(session: Session, settings: Settings, position: TopicOffsets) -> int:
    """Write what the master's ingest had noted of its days; return how many there are.

    position: the next offset of each partition, behind accepted gaps.
    """
    files = DeltaTable(str(settings.master_path)).file_uris()
    found = []
    if files:
        with duckdb.connect() as database:
            found = database.execute(_DAYS, {"files": files}).fetchall()
    upsert_days(session, (row[:4] for row in found))
    arrivals = [(source, first) for source, *_, first in found if first is not None]
    upsert_first_arrivals(session, arrivals)
    upsert_position(session, position)
    return len({(source, day) for source, day, *_ in found})


def rebuild_links(session: Session, settings: Settings, extent: MasterExtent) -> None:
    """Link all records of the master again, from an empty index of first copies."""
    # The index says which records it has: of those the links would not be written again.
    shutil.rmtree(settings.first_copies_path, ignore_errors=True)
    table = DeltaTable(str(settings.master_path))
    links = IngestLinks(session, settings.first_copies_path)
    for family, by_partition in extent.fingerprints.items():
        files = table.file_uris(file_pruning_predicate=[("source", "=", family)])
        until = {number: last.offset + 1 for number, last in by_partition.items()}
        links.add(family, files, until, partial(_files_of_day, table, family))


def _files_of_day(table: DeltaTable, source: str, day: date) -> Sequence[str]:
    of_day = [("source", "=", source), ("event_date", "=", day)]
    return table.file_uris(file_pruning_predicate=of_day)
