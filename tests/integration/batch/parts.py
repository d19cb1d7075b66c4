"""The real parts that a story of rebuilds runs on: broker, node, Spark, master dataset."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from cassandra.cluster import Session
from pyspark.sql import SparkSession

from batch_layer.master.ingest import start_ingest
from batch_layer.views.compute.scope import RebuildRequest
from batch_layer.views.publish.pointer import PointerTable
from batch_layer.views.publish.publication import RebuildJob
from batch_layer.views.rebuild import Report, rebuild
from runtime.kafka.reader import read_to_end
from runtime.registry.sources import FAMILIES, SALES
from tally.config.settings import Settings
from tally.families.family import Family
from tests.support.sources.canonical import send
from tests.support.stack.tables import served_rows

FIELDS = ("events", "receipts", "gross_minor", "excluded_receipts", "excluded_gross_minor")
Cells = dict[tuple[str, datetime], tuple[int, ...]]


def at(day: date, hour: int, minute: int = 0) -> datetime:
    """An instant of the day, UTC."""
    return datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC)


@dataclass(frozen=True)
class Stage:
    """What stood after one rebuild, and how many classes Spark generated and compiled for it."""

    report: Report
    days: dict[date, int]
    cells: Cells
    compiled: int


@dataclass(frozen=True)
class Parts:
    """The real parts that the story runs on."""

    spark: SparkSession
    session: Session
    settings: Settings

    def append(self, *records: Any) -> None:
        """Send canonical receipts and take them into the master."""
        send(self.settings, "sales", records)
        query = start_ingest(self.spark, self.session, self.settings).query
        query.processAllAvailable()
        query.stop()

    def rebuild(self, mode: Any = "dirty", families: Sequence[Family] = (SALES,)) -> Report:
        """Run the job's own function in the test's Spark session."""
        request = RebuildRequest(mode)
        return rebuild(
            RebuildJob(lambda: self.spark, self.session, self.settings, request, families)
        )

    def stage(
        self, mode: str = "dirty", families: Sequence[Family] = (*FAMILIES.values(),)
    ) -> Stage:
        """Rebuild, and look at what is served then."""
        before = compiled_classes(self.spark)
        report = self.rebuild(mode, families)
        days = self.days()
        return Stage(report, days, self.cells(days), compiled_classes(self.spark) - before)

    def days(self, family: str = "sales") -> dict[date, int]:
        """The generation that serves each day."""
        return {
            day: pointer.generation
            for day, pointer in PointerTable(self.session, family).current().items()
        }

    def cells(self, days: dict[date, int]) -> Cells:
        """The rows of the given generations."""
        served = [row for row in served_rows(self.session, "sales") if row.day.date() in days]
        return {
            (row.store_id, row.window_start.replace(tzinfo=UTC)): tuple(
                getattr(row, name) for name in FIELDS
            )
            for row in served
        }


def compiled_classes(spark: SparkSession) -> int:
    """How many generated classes the session's JVM has compiled so far."""
    assert spark._jvm is not None
    metrics = getattr(spark._jvm, "org.apache.spark.metrics.source.CodegenMetrics")
    return int(metrics.METRIC_COMPILATION_TIME().getCount())


def last_token(session: Session) -> int:
    return int(
        session.execute("SELECT last_token FROM batch_pointer WHERE family = 'sales' LIMIT 1")
        .one()
        .last_token
    )


def topic_values(settings: Settings, topic: str) -> list[bytes]:
    """Every value of the topic, read from its beginning to the end as it is now."""
    return [message.value() or b"" for message in read_to_end(settings, [topic])]
