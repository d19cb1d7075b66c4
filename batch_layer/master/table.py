"""The Delta table of the master dataset: created once, appended to, never changed.

Spark's tasks write the files of an append; delta-rs makes the commit, into which it can put the
offsets held after it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import reduce
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from batch_layer.master.extent import (
    EMPTY_EXTENT,
    MasterExtent,
    load_extent,
    log_transaction,
    read_log_starts,
)
from batch_layer.master.files import MASTER_COLUMNS, PARTITIONED_BY, FilePart, to_actions
from runtime.kafka.log_identity import SHA256_DIGITS
from runtime.kafka.offsets import Offsets
from runtime.kafka.topics import PartitionOffsets
from runtime.registry.sources import FAMILIES
from tally.errors import AlreadyRunning, DataLoss
from tally.spark.record_columns import is_readable

_IDENTITY = (
    "store_id string, event_id string, happened_at string, fingerprint string, sender string"
)
_PROPERTIES = {
    # Delta itself then refuses to delete or change a row (seen).
    "delta.appendOnly": "true",
    # A checkpoint has every file, and those removed of two days: one for each append would write
    # much more than the append.
    "delta.checkpointInterval": "50",
    # Longer than any rebuild runs: it reads the files of the version that it has pinned.
    "delta.deletedFileRetentionDuration": "interval 2 days",
    # Each commit lists the log's folder: its entries make an append slower (ADR 032).
    "delta.logRetentionDuration": "interval 12 hours",
}


class MasterTable:
    """The table, opened once, and its extent at the version that it is open at."""

    def __init__(self, path: Path, table: DeltaTable) -> None:
        self.path, self._table = path, table
        self.extent = load_extent(table)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the newest version; create it with the columns of schemas/master/events.json.

        The table is append-only from its first commit. Raises DataLoss when it has records and
        states no offsets.
        """
        if not DeltaTable.is_deltatable(str(path)):
            DeltaTable.create(
                str(path), MASTER_COLUMNS, partition_by=PARTITIONED_BY, configuration=_PROPERTIES
            )
        table = DeltaTable(str(path))
        _add_missing_columns(table)
        opened = cls(path, table)
        # Without its offsets everything that Kafka keeps would be appended once more.
        if opened.extent == EMPTY_EXTENT and opened._table.file_uris():
            raise DataLoss(
                f"master dataset {path}: it has records and states no offsets, as an older release"
                " left it; go on with that release, or begin in another TALLY_HOME"
            )
        return opened

    def refresh(self) -> MasterExtent:
        """The extent of the newest version, to which the table is brought.

        Raises DataLoss when the table is gone.
        """
        if not DeltaTable.is_deltatable(str(self.path)):
            raise DataLoss(f"master dataset {self.path} is gone; restore it from its backup")
        before = self._table.version()
        self._table.update_incremental()
        # Hardly any commit is of others: of maintenance, or of another ingester.
        if self._table.version() != before:
            self.extent = load_extent(self._table)
        return self.extent

    def append(self, parts: Sequence[FilePart], after: MasterExtent) -> None:
        """Make the files part of the table, by one commit that also has the offsets held after it.

        Commits of maintenance since refresh() do no harm. Raises AlreadyRunning when another
        ingester has appended since: a restart goes on where the table ends by then.
        """
        numbers = after.transactions(self.extent, self._table.version() + 1)
        self._commit([*to_actions(parts)], numbers, after)

    def _commit(
        self,
        actions: list[AddAction | RemoveAction],
        numbers: list[Transaction],
        after: MasterExtent,
    ) -> None:
        table, properties = self._table, CommitProperties(app_transactions=numbers)
        try:
            table.create_write_transaction(
                actions,
                mode="append",
                schema=table.schema(),
                partition_by=PARTITIONED_BY,
                commit_properties=properties,
            )
        except CommitFailedError as error:
            raise AlreadyRunning(
                f"master dataset {self.path}: another ingester has appended since version"
                f" {table.version()}; stop it, then start again ({error})"
            ) from error
        # The commit may lie behind some of maintenance, which change nothing of the extent.
        table.update_incremental()
        self.extent = after

    def begin_logs(self, ids: Mapping[str, str], starts: PartitionOffsets) -> None:
        """Note that the topics have these ids by now, and where their new logs go on.

        Raises AlreadyRunning when an ingester has appended since the table was opened.
        """
        after = replace(self.extent, topic_ids={**self.extent.topic_ids, **ids})
        numbers = after.transactions(self.extent, self._table.version() + 1)
        for (topic, partition), start in starts.items():
            earlier = read_log_starts(self._table, topic, partition)
            numbers.append(log_transaction(topic, partition, len(earlier) + 1, start))
        self._commit([], numbers, after)

    def locate(self, paths: Iterable[str]) -> list[str]:
        """Files by their names in the table's log, as absolute paths."""
        return [str(self.path / path) for path in paths]

    def files_of_day(self, source: str, day: date) -> list[str]:
        """The files of a source and UTC day at the version that the table is open at."""
        of_day = [("source", "=", source), ("event_date", "=", day)]
        return self._table.file_uris(file_pruning_predicate=of_day)

    def files_beyond(self, source: str, offsets: Offsets) -> list[str]:
        """The files of a source that may have records at or beyond these offsets, by partition."""
        names = ["path", "partition.source", "max.offset"]
        files = pa.table(self._table.get_add_actions(flatten=True))
        rows = files.select(names).to_pylist()
        least = min(offsets.values(), default=0)
        return self.locate(
            row["path"]
            for row in rows
            if row["partition.source"] == source
            and (row["max.offset"] is None or row["max.offset"] >= least)
        )


def _add_missing_columns(table: DeltaTable) -> None:
    """Add the columns that a later release has brought; earlier records have null there."""
    known = {column.name for column in table.schema().fields}
    schema = Schema.from_arrow(MASTER_COLUMNS)
    if missing := [column for column in schema.fields if column.name not in known]:
        table.alter.add_columns(missing)
        table.update_incremental()


def master_records(kafka: DataFrame) -> DataFrame:
    """Canonical records in the master's columns.

    A record that no layer can read has a null identity, and lies on the day of its arrival.

    In:  the Kafka source's columns (topic, partition, offset, timestamp, value binary): any bytes,
         or none.
    Out: the columns of schemas/master/events.json, and sha256 of the record's bytes, as a
         RecordFingerprint has it.
    """
    text = F.col("value").cast("string")
    parsed = kafka.select(
        "*", _is_readable(text).alias("is_readable"), F.from_json(text, _IDENTITY).alias("event")
    )
    happened_at = _null_unless_readable(F.col("event.happened_at").try_cast("timestamp"))
    store_id, event_id, fingerprint, sender = (
        _null_unless_readable(F.col(f"event.{name}")).alias(name)
        for name in ("store_id", "event_id", "fingerprint", "sender")
    )
    sha256 = F.sha2(F.coalesce("value", F.lit(b"")), 256)
    return parsed.select(
        F.col("topic").alias("source"),
        # Never null: a record without a day made the append fail at every start (seen).
        F.to_date(F.coalesce(happened_at, "timestamp")).alias("event_date"),
        store_id,
        event_id,
        happened_at.alias("happened_at"),
        fingerprint,
        "partition",
        "offset",
        F.col("timestamp").alias("committed_at"),
        # A Spark string must be valid UTF-8; the digest beside it is of the bytes that came.
        F.make_valid_utf8(text).alias("value"),
        sender,
        F.substring(sha256, 1, SHA256_DIGITS).alias("sha256"),
    )


def _is_readable(text: Column) -> Column:
    topic, families = F.col("topic"), FAMILIES.values()
    by_family = ((topic == family.topic) & is_readable(text, family) for family in families)
    return reduce(Column.__or__, by_family)


def _null_unless_readable(value: Column) -> Column:
    return F.when(F.col("is_readable"), value)


def read_records(
    spark: SparkSession,
    path: Path,
    version: int,
    source: str,
    days: Collection[date] | None = None,
) -> DataFrame:
    """The records of a source as of one version: of all days, or of some; no other file is read.

    In:  path of the table, one of its versions, UTC days.
    Out: the columns of schemas/master/events.json.
    """
    # By the names of the files: for a version of the table Spark would first read its whole log,
    # and again later, when entries of it may be gone.
    table = DeltaTable(str(path), version=version)
    wanted: list[tuple[str, str, Any]] = [("source", "=", source)]
    if days is not None:
        wanted.append(("event_date", "in", [*days]))
    columns = from_arrow_schema(MASTER_COLUMNS)
    files = table.file_uris(file_pruning_predicate=wanted)
    if not files:
        return spark.createDataFrame([], columns)
    return spark.read.schema(columns).option("basePath", str(path)).parquet(*files)
