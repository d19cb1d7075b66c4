"""Drives one view query in-process: send records, run a micro-batch, look at the rows."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cassandra.cluster import Session
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from runtime.kafka.offsets import Offsets
from runtime.registry.sources import SALES
from speed_layer.session import ReadStream, read_canonical_stream
from speed_layer.state.sink import MakeSink, RowSink, row_columns
from speed_layer.views import QUERY, start_views
from tally.config.settings import Settings
from tally.families.family import Family
from tally.spark.frames import canonical_records, contributions, members_per_window, window_rows
from tests.support.sources.canonical import Canonical, receipt, send

NOON = datetime(2017, 9, 19, 12, tzinfo=UTC)
WEEK = timedelta(days=7)
Report = dict[str, Any]


@dataclass(frozen=True)
class OnTopic(Family):
    """A family on another topic than its own."""

    read_from: str = ""

    @classmethod
    def of(cls, family: Family, topic: str) -> "OnTopic":
        """The family, read from the topic."""
        # Not asdict(): that would make dicts of its parts too.
        told = {one.name: getattr(family, one.name) for one in fields(family)}
        return cls(**told, read_from=topic)

    @property
    def topic(self) -> str:
        """The canonical topic."""
        return self.read_from


def last_report(query: StreamingQuery) -> Report:
    """Spark's report of the last micro-batch."""
    report = query.lastProgress
    assert report is not None
    return dict(json.loads(report.json))


@dataclass(frozen=True)
class SpeedQuery:
    """The query of the views over one topic.

    Each test has stores of its own, so that the module's tests may share tables.
    """

    spark: SparkSession
    session: Session
    settings: Settings
    topic: str
    family: Family = SALES
    starting: Offsets = field(default_factory=dict)
    floor: datetime | None = None
    # More families that the same query reads, each from a topic.
    beside: tuple["OnTopic", ...] = ()
    # Called at each start.
    sink: Callable[[], MakeSink] = lambda: RowSink
    read: ReadStream = read_canonical_stream

    @property
    def store(self) -> str:
        """The test's store: the topic's name is new for each test."""
        return self.topic[-12:]

    @property
    def checkpoint(self) -> Path:
        """Its checkpoint folder."""
        return self.settings.checkpoint(QUERY)

    def anew(self, checkpoints: Path, **changes: Any) -> "SpeedQuery":
        """A second query over the same topic and tables, without a checkpoint."""
        return replace(
            self, settings=self.settings.model_copy(update={"checkpoints": checkpoints}), **changes
        )

    def of_at_most(self, records: int) -> "SpeedQuery":
        """The same query with so many records in a micro-batch."""
        return replace(
            self, settings=self.settings.model_copy(update={"micro_batch_records": records})
        )

    def without_cassandra(self, address: str) -> "SpeedQuery":
        """The same query whose workers cannot reach Cassandra."""
        return replace(self, settings=self.settings.model_copy(update={"cassandra": address}))

    def sale(
        self, number: int, at: datetime = NOON, cents: int = 100, currency: str = "USD"
    ) -> Canonical:
        """A receipt of the test's store."""
        return receipt(self.store, number, at, cents, currency)

    def send(self, *records: Canonical) -> None:
        """Records on the topic, acknowledged."""
        send(self.settings, self.topic, records)

    @contextmanager
    def running(self) -> Iterator[StreamingQuery]:
        """The query, started and stopped."""
        first = dict.fromkeys(range(self.settings.partitions), 0)
        families = [OnTopic.of(self.family, self.topic), *self.beside]
        starting = {
            self.topic: self.starting or first,
            **{family.topic: first for family in self.beside},
        }
        records = self.read(self.spark, self.settings, starting, self.settings.micro_batch_records)
        query = start_views(
            records, families, {self.family.name: self.floor}, self.settings, self.sink()
        )
        try:
            yield query
        finally:
            query.stop()

    def run(self) -> Report:
        """Everything that is on the topic, in one micro-batch (or a repeated one before it); the
        last report."""
        with self.running() as query:
            query.processAllAvailable()
            return last_report(query)

    def batches(self, *batches: list[Canonical]) -> list[Report]:
        """Each list of records sent and read in a micro-batch of its own, by one running query."""
        reports = []
        with self.running() as query:
            for records in batches:
                self.send(*records)
                query.processAllAvailable()
                reports.append(last_report(query))
        return reports

    def rows(
        self, columns: str = "window_start, currency, events, receipts, gross_minor"
    ) -> list[tuple[Any, ...]]:
        """The store's speed rows, in clustering order; instants in UTC."""
        days = [(NOON + timedelta(days=number)).date() for number in range(-8, 2)]
        text = f"SELECT {columns} FROM {self.family.speed_table} WHERE store_id = %s AND day = %s"
        found = [
            tuple(row) for day in days for row in self.session.execute(text, [self.store, day])
        ]
        return [
            tuple(cell.replace(tzinfo=UTC) if isinstance(cell, datetime) else cell for cell in row)
            for row in found
        ]

    def totals(self) -> list[tuple[Any, ...]]:
        """(events, cents) of each of the store's rows."""
        return self.rows("events, gross_minor")

    def written_at(self) -> list[tuple[Any, ...]]:
        """Every column of the store's rows with the write timestamp."""
        return self.rows(
            "window_start, currency, events, receipts, gross_minor, units_milli, epoch,"
            " WRITETIME(events)"
        )

    def write_prefix(self, records: int) -> None:
        """The rows that a query which has read only the first records would write, written by
        its sink."""
        kafka = (
            self.spark.read.format("kafka")
            .option("kafka.bootstrap.servers", self.settings.kafka)
            .option("subscribe", self.topic)
        )
        prefix = canonical_records(kafka.load()).where(f"offset < {records}")
        rows = window_rows(
            members_per_window(contributions(prefix, self.family), self.family), self.family
        )
        plain = {"day": F.unix_date("day"), "window_start": F.unix_millis("window_start")}
        (row,) = rows.select(
            *(plain.get(name, F.col(name)).alias(name) for name in row_columns(self.family))
        ).collect()
        sink = self.sink()(self.settings)
        sink.write([(self.family, [tuple(row)])])
        sink.flush()

    def forget_last_commit(self) -> None:
        """The checkpoint as a crash leaves it: rows written, the micro-batch not committed."""
        commits = self.checkpoint / "commits"
        last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink()

    def copy_checkpoint(self, target: Path) -> None:
        """A backup of the checkpoint folder."""
        shutil.copytree(self.checkpoint, target / QUERY)

    def restore_checkpoint(self, backup: Path) -> None:
        """The checkpoint folder as it was."""
        shutil.rmtree(self.checkpoint)
        shutil.copytree(backup / QUERY, self.checkpoint)
