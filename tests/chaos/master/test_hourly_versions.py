"""Hourly rebuilds write the rows that differ; a sweep leaves what answers need, also under readers.

An answer that was given is the oracle: what the API said after each rebuild it says again for
`as_of` that instant, before the sweep, while it works, and after it.
"""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from threading import Event
from typing import Any

import pytest
from cassandra.cluster import Session
from pyspark.sql import SparkSession

from batch_layer.views.publish import publication
from batch_layer.views.sweep import sweep
from ops.local.processes.service import Site
from runtime.connect import cassandra_session
from runtime.records.gaps import declare_backfill
from runtime.registry.sources import SALES
from serving.merge.reading import StoreDays, read_past_pointers, read_store
from serving.storage.views import ViewReader
from tally.errors import TallyError
from tests.integration.batch.parts import Parts, at
from tests.support.sources.canonical import receipt
from tests.support.stack.tables import batch_rows

MONDAY = date(2017, 3, 6)
STORES, QUARTERS, RUNS, READERS = 40, 20, 48, 20
# What a run brings: late receipts of some stores.
LATE = 4


class Clock:
    """The brokers' clock: a rebuild each hour."""

    def __init__(self) -> None:
        self.now = at(date(2026, 11, 1), 0)

    def read(self, *_: object) -> datetime:
        return self.now


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def parts(
    spark: SparkSession, own_site: Site, tmp_path_factory: pytest.TempPathFactory, clock: Clock
) -> Iterator[Parts]:
    home = tmp_path_factory.mktemp("versions")
    settings = own_site.settings.model_copy(update={"home": home, "ingest_trigger_seconds": 0.0})
    with cassandra_session(settings) as session, pytest.MonkeyPatch.context() as patched:
        for module in ("compute.plan", "publish.publication"):
            patched.setattr(f"batch_layer.views.{module}.read_broker_time", clock.read)
        declare_backfill(session, "sales", (MONDAY, MONDAY), "the story")
        story = Parts(spark, session, settings)
        story.append(
            *(
                receipt(str(store), quarter, at(MONDAY, 8) + timedelta(minutes=15 * quarter), 100)
                for store in range(STORES)
                for quarter in range(QUARTERS)
            )
        )
        story.rebuild()
        yield story


Answer = dict[str, Any]


def answer_as_of(views: ViewReader, instant: datetime) -> Answer:
    """The windows of all stores as the generation of that instant has them."""

    async def read() -> Answer:
        pointers = await read_past_pointers(views, SALES, [MONDAY], instant)
        stores = [StoreDays(str(store), 0, [MONDAY]) for store in range(STORES)]
        found = await asyncio.gather(*(read_store(views, pointers, store) for store in stores))
        return {
            store.store_id: {
                start: (state.events, state.values) for start, state in reading.batch.items()
            }
            for store, reading in zip(stores, found, strict=True)
        }

    return asyncio.run(read())


def count_versions(session: Session) -> int:
    """The batch rows in the table, of all generations."""
    return len([*session.execute("SELECT store_id FROM batch_sales_15min")])


@pytest.fixture(scope="module")
def answered(parts: Parts, clock: Clock) -> dict[datetime, Answer]:
    """What was answered after each of the hourly rebuilds."""
    views, answered = ViewReader(parts.settings), {}
    answered[clock.now] = answer_as_of(views, clock.now)
    for run in range(1, RUNS):
        clock.now += timedelta(hours=1)
        late = at(MONDAY, 8) + timedelta(minutes=15 * (run % QUARTERS))
        parts.append(
            *(receipt(str((run + n) % STORES), 1_000 + run, late, 7 + n) for n in range(LATE))
        )
        report = parts.rebuild()
        assert (report.rows, report.changed_windows) == (LATE, LATE)
        answered[clock.now] = answer_as_of(views, clock.now)
    views.close()
    return answered


def test_rows_of_hourly_rebuilds_are_at_most_twice_those_that_serve(
    parts: Parts, answered: dict[datetime, Answer]
) -> None:
    stored, live = count_versions(parts.session), len(batch_rows(parts.session, "sales"))

    print(f"{RUNS} hourly rebuilds: {stored:,} rows stored, {live:,} serve: {stored / live:.2f}")
    assert live == STORES * QUARTERS
    assert stored <= 2 * live


def test_rows_of_a_run_that_was_never_published_do_not_count(
    parts: Parts, answered: dict[datetime, Answer], clock: Clock
) -> None:
    before, stored = batch_rows(parts.session, "sales"), count_versions(parts.session)
    parts.append(receipt("1", 5_000, at(MONDAY, 9), 55))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(publication, "refuse_unequal", _refuse)
        with pytest.raises(TallyError, match="refused by the test"):
            parts.rebuild()
    views = ViewReader(parts.settings)

    assert count_versions(parts.session) == stored + 1
    assert batch_rows(parts.session, "sales") == before
    assert answer_as_of(views, clock.now) == answered[clock.now]
    views.close()


def _refuse(*_arguments: object) -> None:
    raise TallyError("refused by the test")


def test_sweep_under_readers_leaves_every_answer_inside_the_retention(
    parts: Parts, answered: dict[datetime, Answer]
) -> None:
    instants = sorted(answered)
    cutoff, swept, asked = instants[RUNS // 2], Event(), 0
    inside = [instant for instant in instants if instant >= cutoff]
    stored = count_versions(parts.session)

    def ask(number: int) -> int:
        views, asked = ViewReader(parts.settings), 0
        # Once more after the sweep has ended.
        while not swept.is_set() or asked == 0:
            instant = inside[(number + asked) % len(inside)]
            assert answer_as_of(views, instant) == answered[instant]
            asked += 1
        assert (
            answer_as_of(views, inside[number % len(inside)])
            == answered[inside[number % len(inside)]]
        )
        views.close()
        return asked + 1

    with ThreadPoolExecutor(READERS) as pool:
        readers = [pool.submit(ask, number) for number in range(READERS)]
        time.sleep(1)
        report = sweep(parts.session, cutoff)
        swept.set()
        asked = sum(reader.result() for reader in readers)

    left, live = count_versions(parts.session), batch_rows(parts.session, "sales")
    print(
        f"{READERS} readers: {asked:,} answers about {len(inside)} instants were those given then;"
        f" {report.versions} versions and {report.flips} flips swept; {left:,} rows left"
    )
    assert report.versions > 0 and left == stored - report.versions
    assert sweep(parts.session, cutoff).versions == 0
    assert len(live) == STORES * QUARTERS


def test_what_has_gone_was_needed_only_before_the_cutoff(
    parts: Parts, answered: dict[datetime, Answer]
) -> None:
    views, instants = ViewReader(parts.settings), sorted(answered)
    cutoff = asyncio.run(views.swept_until(SALES, [MONDAY]))

    assert cutoff == instants[RUNS // 2]
    wrong = [each for each in instants if answer_as_of(views, each) != answered[each]]
    views.close()
    # The control: without what is gone, some answers about earlier instants are others.
    assert wrong and max(wrong) < cutoff


def test_full_rebuild_after_the_sweep_changes_nothing(
    parts: Parts, answered: dict[datetime, Answer]
) -> None:
    parts.rebuild()
    before = batch_rows(parts.session, "sales")

    report = parts.rebuild("full")

    assert (report.rows, report.changed_windows) == (0, 0)
    assert batch_rows(parts.session, "sales") == before
