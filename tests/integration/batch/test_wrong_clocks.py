"""Receipts of tills whose clock was reset: counted, and nothing is claimed of their days nor of
those between."""

from datetime import UTC, date, datetime, timedelta

import pytest
from cassandra.cluster import Session
from pyspark.sql import SparkSession

from batch_layer.views.compute.scope import RebuildRequest
from batch_layer.views.publish.pointer import PointerTable
from batch_layer.views.publish.publication import RebuildJob
from batch_layer.views.rebuild import rebuild
from runtime.registry.sources import SALES
from tally.config.settings import Settings
from tally.time.windows import window_start
from tests.integration.batch.conftest import Ingest
from tests.support.sources.canonical import receipt, send


def test_receipts_of_other_times_beside_one_of_this_minute(
    spark: SparkSession,
    session: Session,
    batch_settings: Settings,
    ingest: Ingest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = datetime.now(UTC)
    today = begun.date()
    odd = [
        date(1, 1, 1),
        date(1800, 7, 14),
        date(1970, 1, 1),
        date(2000, 1, 1),
        today - timedelta(days=280),
        today - timedelta(days=5),
    ]
    noons = [datetime(day.year, day.month, day.day, 12, tzinfo=UTC) for day in odd]
    sold = [receipt("367", number, at) for number, at in enumerate([*noons, begun])]
    send(batch_settings, "sales", sold)
    ingest()
    # Two days later by the brokers' clock, nothing has come since.
    later = begun + timedelta(days=2)
    monkeypatch.setattr("batch_layer.views.compute.plan.read_broker_time", lambda _settings: later)

    reports = [
        rebuild(RebuildJob(lambda: spark, session, batch_settings, RebuildRequest(mode), [SALES]))
        for mode in ("dirty", "dirty", "full", "dirty")
    ]

    served = PointerTable(session, "sales").current()
    # In the first quarter of an hour of a day nothing is claimed of it yet.
    last_claimed = window_start(later) - timedelta(milliseconds=1)
    after = [
        today + timedelta(days=number) for number in range((last_claimed.date() - today).days + 1)
    ]
    days = len(odd) + len(after)
    rows = session.execute(
        "SELECT window_start, receipts FROM batch_sales_15min WHERE generation = 2 ALLOW FILTERING"
    )
    assert sorted(served) == [*odd, *after]
    assert [report.days for report in reports] == [days, 0, days, 0] and reports[0].rows == 7
    assert all(
        served[day].covered_from
        == served[day].covered_until
        == datetime(day.year, day.month, day.day, tzinfo=UTC)
        for day in odd
    )
    assert served[today].covered_from >= begun and served[after[-1]].covered_until == window_start(
        later
    )
    assert sorted((row.window_start.replace(tzinfo=UTC), row.receipts) for row in rows) == [
        *((noon, 1) for noon in noons),
        (window_start(begun), 1),
    ]
