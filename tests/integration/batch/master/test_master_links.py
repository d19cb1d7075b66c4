"""Whatever ends an append amid its links, the next start leaves those that a new index makes."""

import shutil
from datetime import UTC, date, datetime, timedelta

import pytest
from cassandra.cluster import Session
from pyspark.errors import StreamingQueryException

from batch_layer.links.linked_records import read_links
from batch_layer.master.extent import read_extent
from tally.config.settings import Settings
from tests.integration.batch.conftest import Ingest
from tests.support.sources.canonical import receipt, send, void_of

MONDAY, COPIED, VOIDED = (datetime(2017, 3, day, 12, tzinfo=UTC) for day in (6, 7, 8))
# What an append calls, in its order.
MOMENTS = (
    "batch_layer.links.ingest_links.write_headers",
    "batch_layer.links.ingest_links.upsert_days",
    "batch_layer.master.ingest.upsert_days",
    "batch_layer.master.ingest.upsert_arrivals",
    "batch_layer.master.table.MasterTable.append",
    "batch_layer.master.ingest.upsert_position",
)
Progress = set[tuple[date, int, int]]


def linked_offsets(settings: Settings, session: Session) -> dict[date, set[tuple[int, int]]]:
    """The places of the headers that each day needs of others."""
    until = read_extent(settings.master_path).until["sales"]
    days = [instant.date() for instant in (MONDAY, COPIED, VOIDED)]
    return {
        day: {header.place for header in read_links(session, "sales", [day], until)} for day in days
    }


def progress(session: Session) -> Progress:
    rows = session.execute(
        "SELECT day, partition, until FROM master_progress WHERE family = 'sales'"
    )
    return {(row.day.date(), row.partition, row.until) for row in rows}


@pytest.mark.parametrize("number", range(len(MOMENTS)))
def test_links_of_an_append_that_ended_amid_are_made_again(
    ingest: Ingest, batch_settings: Settings, session: Session, number: int
) -> None:
    store = f"links-{number}"
    first = receipt(store, 1, MONDAY)
    send(batch_settings, "sales", [first, receipt(store, 2, MONDAY + timedelta(hours=1))])
    ingest()
    send(batch_settings, "sales", [receipt(store, 1, COPIED, 999), void_of(first, VOIDED)])
    with pytest.MonkeyPatch.context() as patched, pytest.raises(StreamingQueryException):
        patched.setattr(MOMENTS[number], end_here)
        ingest()

    ingest()

    links, days = linked_offsets(batch_settings, session), progress(session)
    session.execute("TRUNCATE linked_record")
    shutil.rmtree(batch_settings.first_copies_path)
    ingest()
    assert all(links.values())
    assert (linked_offsets(batch_settings, session), progress(session)) == (links, days)


def end_here(*_: object) -> None:
    raise KeyError("the moment")
