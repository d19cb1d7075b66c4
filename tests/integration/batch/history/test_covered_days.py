"""A day of which only more is covered keeps its rows: its pointer moves, and no JVM is started."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any, NoReturn

import pytest
from pyspark.sql import SparkSession

from batch_layer.views.compute.scope import RebuildRequest
from batch_layer.views.publish.pointer import PointerTable
from batch_layer.views.publish.publication import RebuildJob
from batch_layer.views.rebuild import Report, rebuild
from ops.local.processes.service import Site
from runtime.connect import cassandra_session
from runtime.records.gaps import declare_backfill
from runtime.registry.sources import SALES
from tally.families.generation import Generation
from tests.integration.batch.parts import Parts, at
from tests.support.sources.canonical import receipt

MONDAY = date(2017, 3, 6)


class Clock:
    """The brokers' clock."""

    def __init__(self) -> None:
        self.now = at(MONDAY, 12, 5)

    def read(self, *_: object) -> datetime:
        return self.now


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def parts(
    spark: SparkSession, own_site: Site, tmp_path_factory: pytest.TempPathFactory, clock: Clock
) -> Iterator[Parts]:
    home = tmp_path_factory.mktemp("covered")
    settings = own_site.settings.model_copy(update={"home": home, "ingest_trigger_seconds": 0.0})
    with cassandra_session(settings) as session, pytest.MonkeyPatch.context() as patched:
        patched.setattr("batch_layer.views.compute.plan.read_broker_time", clock.read)
        declare_backfill(session, "sales", (MONDAY, MONDAY), "the story")
        story = Parts(spark, session, settings)
        story.append(receipt("1", 1, at(MONDAY, 10), 100))
        story.rebuild()
        yield story


def without_spark() -> NoReturn:
    pytest.fail("a JVM was asked for")


def rebuild_without_spark(parts: Parts) -> Report:
    request = RebuildRequest()
    return rebuild(RebuildJob(without_spark, parts.session, parts.settings, request, [SALES]))


def serving(parts: Parts) -> Generation:
    return PointerTable(parts.session, "sales").current()[MONDAY]


def history(parts: Parts) -> list[tuple[Any, ...]]:
    rows = parts.session.execute(
        "SELECT generation, covered_until FROM batch_pointer_history"
        " WHERE family = 'sales' AND day = '2017-03-06'"
    )
    return [(row.generation, row.covered_until.replace(tzinfo=UTC).hour) for row in rows]


def test_pointer_moves_as_more_is_covered(parts: Parts, clock: Clock) -> None:
    before = serving(parts)
    clock.now = at(MONDAY, 13, 5)

    report = rebuild_without_spark(parts)

    after = serving(parts)
    assert (report.days, report.rows, report.changed_windows) == (1, 0, 0)
    assert (before.covered_until, after.covered_until) == (at(MONDAY, 12), at(MONDAY, 13))
    assert (after.generation, after.pinned) == (before.generation, before.pinned)
    # What was covered before is known too, for questions about that time.
    assert history(parts) == [(before.generation, 12), (before.generation, 13)]


def test_nothing_dirty_needs_no_spark(parts: Parts) -> None:
    assert rebuild_without_spark(parts).days == 0


def test_new_record_makes_new_rows(parts: Parts, clock: Clock) -> None:
    before = serving(parts)
    clock.now = at(MONDAY, 14, 5)
    parts.append(receipt("1", 2, at(MONDAY, 13, 10), 50))

    parts.rebuild()

    after = serving(parts)
    assert after.generation > before.generation
    assert history(parts)[0] == (after.generation, 14)
    assert parts.cells(parts.days())["1", at(MONDAY, 13)][1] == 1
