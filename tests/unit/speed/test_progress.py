import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from speed_layer.checkpoint import Position
from speed_layer.progress import append_line, position_of, progress_line

# One report of Spark 4.1 with the fields that are kept.
REPORT: dict[str, Any] = {
    "name": "sales", "runId": "r1", "batchId": 7, "timestamp": "2026-11-21T10:12:11.348Z", "numInputRows": 5,
    "durationMs": {"addBatch": 900, "triggerExecution": 1000}, "eventTime": {"watermark": "2017-01-01T03:33:19.000Z"},
    "stateOperators": [{"numRowsDroppedByWatermark": 2, "memoryUsedBytes": 10}],
    "sources": [{"endOffset": {"sales": {"0": 12, "1": 3}}}],
    "observedMetrics": {"left_out": {"below_floor": 4, "unreadable": 3, "repeats": 1}},
}  # fmt: skip


def test_line_has_what_demo_and_audit_read() -> None:
    assert progress_line(REPORT) == {
        "query": "sales", "run_id": "r1", "batch_id": 7, "timestamp": "2026-11-21T10:12:11.348Z", "input_rows": 5,
        "duration_ms": {"addBatch": 900, "triggerExecution": 1000}, "watermark": "2017-01-01T03:33:19.000Z", "dropped": 2,
        "below_floor": 4, "unreadable": 3, "repeats": 1, "ahead": 0, "state_bytes": 10, "until": {"0": 12, "1": 3},
    }  # fmt: skip


def test_line_is_json() -> None:
    assert json.loads(json.dumps(progress_line(REPORT)))["batch_id"] == 7


def test_query_without_state_has_no_watermark_and_drops_nothing() -> None:
    stateless = {name: value for name, value in REPORT.items() if name not in ("eventTime", "observedMetrics")} | {"stateOperators": []}

    line = progress_line(stateless)

    assert (line["watermark"], line["dropped"], line["below_floor"]) == (None, 0, 0)


def test_position_is_the_end_of_the_micro_batch() -> None:
    assert position_of(REPORT) == Position({0: 12, 1: 3}, datetime(2017, 1, 1, 3, 33, 19, tzinfo=UTC))


def test_position_of_a_query_without_watermark_is_told_too() -> None:
    stateless = {name: value for name, value in REPORT.items() if name != "eventTime"}

    position = position_of(stateless)

    assert position is not None and position.until == {0: 12, 1: 3}


def test_file_of_lines_that_has_grown_too_large_becomes_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "speed-progress-sales.jsonl"

    for number in range(10):
        append_line(file, str(number), most_bytes=4)

    assert {kept.name: kept.read_text().split() for kept in tmp_path.iterdir()} == {
        "speed-progress-sales.jsonl": ["9"],
        "speed-progress-sales.1.jsonl": ["6", "7", "8"],
    }
