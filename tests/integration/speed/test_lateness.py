"""Lateness belongs to the window, and a micro-batch is judged by the watermark of the data before it."""

import json
from datetime import UTC, datetime, timedelta

from speed_layer.handover import Driver
from speed_layer.lastread import Memory, Remembered
from speed_layer.progress import Progress, progress_file
from tests.integration.speed.query import NOON, Report, SpeedQuery

HOUR = timedelta(hours=1)
CLOSES_NOON = NOON + timedelta(hours=2, minutes=15)


def dropped(reports: list[Report]) -> list[int]:
    """numRowsDroppedByWatermark of each micro-batch."""
    return [report["stateOperators"][0]["numRowsDroppedByWatermark"] for report in reports]


def test_event_older_than_the_watermark_in_an_open_window_counts(query: SpeedQuery) -> None:
    just_open = CLOSES_NOON - timedelta(seconds=1)

    reports = query.batches([query.sale(1)], [query.sale(2, just_open)], [query.sale(3)])

    assert reports[2]["eventTime"]["watermark"] == "2017-09-19T12:14:59.000Z"  # sale 3 is of 12:00
    assert (query.totals()[0], dropped(reports)) == ((2, 200), [0, 0, 0])


def test_event_whose_window_has_closed_is_dropped_and_shows_in_the_counter(query: SpeedQuery) -> None:
    reports = query.batches([query.sale(1)], [query.sale(2, CLOSES_NOON)], [query.sale(3)])

    assert (query.totals()[0], dropped(reports)) == ((1, 100), [0, 0, 1])


def test_late_filter_uses_the_watermark_of_all_data_before_the_batch_and_none_of_its_own(query: SpeedQuery) -> None:
    reports = query.batches([query.sale(1)], [query.sale(2), query.sale(3, NOON + 24 * HOUR)], [query.sale(4)])

    # Sale 2 came with the event that closes its window, and counts; sale 4 came in the very next micro-batch, and does not.
    assert (query.totals()[0], dropped(reports)) == ((2, 200), [0, 0, 1])


def test_event_of_a_year_to_come_closes_no_window(query: SpeedQuery) -> None:
    reports = query.batches([query.sale(1)], [query.sale(2, datetime(9999, 12, 31, 23, 50, tzinfo=UTC))], [query.sale(3)])

    assert (query.totals()[0], dropped(reports)) == ((2, 200), [0, 0, 0])
    assert [report["observedMetrics"]["left_out"]["ahead"] for report in reports] == [0, 1, 0]


def test_closed_window_leaves_the_state(query: SpeedQuery) -> None:
    reports = query.batches([query.sale(1)], [query.sale(2, NOON + 24 * HOUR)], [query.sale(3, NOON + 24 * HOUR)])

    assert [report["stateOperators"][0]["numRowsRemoved"] for report in reports] == [0, 0, 1]


def test_late_records_and_the_reached_offsets_are_kept_for_readers(query: SpeedQuery) -> None:
    settings = query.settings.model_copy(update={"keyspace": query.session.keyspace})
    with query.running() as running:
        memory = Memory(query.checkpoint, Remembered("", {}))
        progress = Progress(Driver(query.spark, query.session, settings), running, "sales", memory)
        for records in ([query.sale(1)], [query.sale(2, CLOSES_NOON)], [query.sale(3)]):
            query.send(*records)
            running.processAllAvailable()
            progress.take()

    late = [
        row.dropped
        for row in query.session.execute("SELECT run, dropped FROM speed_late WHERE family = 'sales'")
        if row.run == running.runId
    ]
    reached = {
        row.partition: row.until for row in query.session.execute("SELECT partition, until FROM speed_progress WHERE family = 'sales'")
    }
    lines = [json.loads(line) for line in progress_file(settings.home, "sales").read_text().splitlines()]
    assert (late, sum(reached.values())) == ([1], 3)
    # A query that starts on an empty topic may begin with an empty micro-batch.
    assert [(line["input_rows"], line["dropped"]) for line in lines if line["input_rows"]] == [(1, 0), (1, 0), (1, 1)]
