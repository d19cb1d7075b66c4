"""Receipts of tills whose clock was reset: they are counted, and keep no other day from being rebuilt."""

from datetime import UTC, date, datetime

from cassandra.cluster import Session
from pyspark.sql import SparkSession

from batch_layer.views.pointer import PointerTable
from batch_layer.views.publication import Job
from batch_layer.views.rebuild import rebuild
from batch_layer.views.scope import Wanted
from tally.families import SALES
from tally.settings import Settings
from tests.canonical import receipt, send
from tests.integration.batch.conftest import Ingest

DAYS = [date(1, 1, 1), date(1800, 7, 14), date(1970, 1, 1), date(2017, 9, 19)]


def test_one_receipt_a_day_from_the_year_1_on(spark: SparkSession, session: Session, batch_settings: Settings, ingest: Ingest) -> None:
    noons = [datetime(day.year, day.month, day.day, 12, tzinfo=UTC) for day in DAYS]
    send(batch_settings, "sales", [receipt("367", number, noon) for number, noon in enumerate(noons)])
    ingest()

    reports = [rebuild(Job(spark, session, batch_settings, Wanted(mode), families=[SALES])) for mode in ("dirty", "full", "dirty")]

    rows = session.execute("SELECT window_start, receipts FROM batch_sales_15min WHERE generation = 2 ALLOW FILTERING")
    assert [(report.days, report.rows) for report in reports] == [(4, 4), (4, 4), (0, 0)]
    assert sorted(PointerTable(session, "sales").current()) == DAYS
    assert sorted((row.window_start.replace(tzinfo=UTC), row.receipts) for row in rows) == [(noon, 1) for noon in noons]
