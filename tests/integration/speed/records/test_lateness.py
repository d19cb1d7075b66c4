"""Lateness belongs to the window, and a record is judged by those before it in its own partition
alone."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from speed_layer.checkpoint_files import (
    StartPosition,
    TopicCheckpoint,
    TopicIdentity,
)
from speed_layer.floor import compute_floor
from speed_layer.progress import Progress, progress_file
from speed_layer.session import Driver, StartOptions
from speed_layer.state.records import parse_reports
from tally.events.identity import partition_number
from tests.integration.speed.query import NOON, OnTopic, Report, SpeedQuery
from tests.support.sources.canonical import receipt

HOUR = timedelta(hours=1)
CLOSES_NOON = NOON + timedelta(hours=2, minutes=15)


def late(reports: list[Report]) -> list[int]:
    """Late records of each micro-batch."""
    return [sum(report.late for report in parse_reports(batch_report)) for batch_report in reports]


def test_event_far_behind_the_latest_one_in_an_open_window_counts(query: SpeedQuery) -> None:
    just_open = CLOSES_NOON - timedelta(seconds=1)

    reports = query.batches([query.sale(1)], [query.sale(2, just_open)], [query.sale(3)])

    assert (query.totals()[0], late(reports)) == ((2, 200), [0, 0, 0])


def test_event_whose_window_has_closed_is_dropped_and_shows_in_the_count(query: SpeedQuery) -> None:
    reports = query.batches(
        [query.sale(1)], [query.sale(2, CLOSES_NOON)], [query.sale(3), query.sale(4)]
    )

    assert (query.totals()[0], late(reports)) == ((1, 100), [0, 0, 2])


def test_event_that_came_before_the_one_that_closes_its_window_counts_and_the_one_after_does_not(
    query: SpeedQuery,
) -> None:
    reports = query.batches(
        [query.sale(1)],
        [query.sale(2), query.sale(3, NOON + 24 * HOUR), query.sale(4)],
        [query.sale(5)],
    )

    assert (query.totals()[0], late(reports)) == ((2, 200), [0, 1, 1])


@pytest.mark.parametrize("cap", [1, 2, 3, 50_000])
def test_what_is_late_is_the_same_for_any_size_of_micro_batch(query: SpeedQuery, cap: int) -> None:
    query.send(
        query.sale(1),
        query.sale(2, CLOSES_NOON),
        query.sale(3),
        query.sale(4, CLOSES_NOON),
        query.sale(5, NOON + HOUR),
    )

    with query.of_at_most(cap).running() as running:
        running.processAllAvailable()
        reports = [json.loads(report.json) for report in running.recentProgress]

    assert sum(late(reports)) == 1
    assert max(report["numInputRows"] for report in reports) <= cap
    assert query.totals() == [(1, 100), (1, 100), (2, 200)]


def test_what_another_partition_has_seen_makes_nothing_late(query: SpeedQuery) -> None:
    partitions = query.settings.partitions
    others = (str(number) for number in range(100))
    other = next(
        store
        for store in others
        if partition_number(store, partitions) != partition_number(query.store, partitions)
    )

    reports = query.batches(
        [receipt(f"{other}", 1, NOON + 240 * HOUR)], [query.sale(1)], [query.sale(2)]
    )

    assert (query.totals(), late(reports)) == ([(2, 200)], [0, 0, 0])


def test_event_of_a_year_to_come_closes_no_window(query: SpeedQuery) -> None:
    reports = query.batches(
        [query.sale(1)],
        [query.sale(2, datetime(9999, 12, 31, 23, 50, tzinfo=UTC))],
        [query.sale(3)],
    )

    assert (query.totals()[0], late(reports)) == ((2, 200), [0, 0, 0])
    assert [
        sum(report.ahead for report in parse_reports(batch_report)) for batch_report in reports
    ] == [0, 1, 0]


def test_closed_window_leaves_the_state(query: SpeedQuery) -> None:
    reports = query.batches([query.sale(1)], [query.sale(2, NOON + 24 * HOUR)])

    assert [report["stateOperators"][0]["numRowsRemoved"] for report in reports] == [0, 1]


def test_late_records_and_the_reached_offsets_are_kept_for_readers(query: SpeedQuery) -> None:
    settings = query.settings.model_copy(update={"keyspace": query.session.keyspace})
    with query.running() as running:
        memory = TopicCheckpoint(query.checkpoint, {query.topic: TopicIdentity("", {})})
        progress = Progress(
            Driver(query.spark, query.session, settings, StartOptions(compute_floor)),
            running,
            [OnTopic.of(query.family, query.topic)],
            memory,
            StartPosition({}, {}),
        )
        for records in ([query.sale(1)], [query.sale(2, CLOSES_NOON)], [query.sale(3)]):
            query.send(*records)
            running.processAllAvailable()
            progress.take()

    kept = [
        row.dropped
        for row in query.session.execute(
            "SELECT run, dropped FROM speed_late WHERE family = 'sales'"
        )
        if row.run == running.runId
    ]
    reached = [
        *query.session.execute(
            "SELECT partition, until, watermark FROM speed_progress WHERE family = 'sales'"
        )
    ]
    lines = [
        json.loads(line) for line in progress_file(settings.home, "views").read_text().splitlines()
    ]
    (own,) = [row for row in reached if row.until]
    assert (kept, own.until, own.watermark) == ([1], 3, datetime(2017, 9, 19, 12, 15))
    # A query that starts on an empty topic may begin with an empty micro-batch.
    assert [(line["input_rows"], line["late"]) for line in lines if line["input_rows"]] == [
        (1, 0),
        (1, 0),
        (1, 1),
    ]
