import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from speed_layer.progress import append_line, progress_line
from speed_layer.state.records import PartitionReport, parse_reports

REPORTS = [
    PartitionReport(
        "sales", 0, rows=2, offset=11, crc=1, unreadable=3, below_floor=4, late=2, frontier=0
    ),
    PartitionReport("traffic", 1, rows=1, offset=2, crc=1, repeats=1, late=1, frontier=0),
]
# One report of Spark 4.1 with the fields that are kept.
BATCH_REPORT: dict[str, Any] = {
    "name": "views",
    "runId": "r1",
    "batchId": 7,
    "timestamp": "2026-11-21T10:12:11.348Z",
    "numInputRows": 5,
    "durationMs": {"addBatch": 900, "triggerExecution": 1000},
    "stateOperators": [{"memoryUsedBytes": 10}],
    "sources": [{"endOffset": {"sales": {"0": 12, "1": 3}, "traffic": {"0": 0, "1": 3}}}],
    "observedMetrics": {"acks": {"acks": [asdict(report) for report in REPORTS]}},
}


def test_line_has_what_demo_and_audit_read() -> None:
    assert progress_line(BATCH_REPORT) == {
        "query": "views",
        "run_id": "r1",
        "batch_id": 7,
        "timestamp": "2026-11-21T10:12:11.348Z",
        "input_rows": 5,
        "duration_ms": {"addBatch": 900, "triggerExecution": 1000},
        "late": 3,
        "unreadable": 3,
        "repeats": 1,
        "below_floor": 4,
        "ahead": 0,
        "rows": 3,
        "state_bytes": 10,
        "until": {"sales": {"0": 12, "1": 3}, "traffic": {"0": 0, "1": 3}},
    }


def test_line_is_json() -> None:
    assert json.loads(json.dumps(progress_line(BATCH_REPORT)))["batch_id"] == 7


def test_query_without_state_and_without_reports_has_left_nothing_out() -> None:
    line = progress_line({**BATCH_REPORT, "observedMetrics": {}, "stateOperators": []})

    assert (line["late"], line["below_floor"], line["state_bytes"]) == (0, 0, 0)


def test_reports_of_a_micro_batch_are_those_that_were_observed() -> None:
    assert parse_reports(BATCH_REPORT) == REPORTS


def test_file_of_lines_that_has_grown_too_large_becomes_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "speed-progress-views.jsonl"

    for number in range(10):
        append_line(file, str(number), most_bytes=4)

    assert {kept.name: kept.read_text().split() for kept in tmp_path.iterdir()} == {
        "speed-progress-views.jsonl": ["9"],
        "speed-progress-views.1.jsonl": ["6", "7", "8"],
    }
