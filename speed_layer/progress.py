"""How far each query is: to Cassandra for readers and lag, and as JSON lines for people and measurements."""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from cassandra.cluster import PreparedStatement, Session
from pyspark.sql.streaming.query import StreamingQuery

from speed_layer.checkpoint import Position
from speed_layer.sink.writer import write_all
from speed_layer.view import LEFT_OUT
from tally.settings import Settings

Report = Mapping[str, Any]


class Progress:
    """Writes every micro-batch's report of one query once; reports of queries that keep no view go to the lines only."""

    def __init__(self, settings: Settings, session: Session, query: StreamingQuery, family: str | None) -> None:
        self._session, self._query, self._family = session, query, family
        self._file = progress_file(settings.home, query.name)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._seen, self._batch = "", -1
        self._reach = _prepare(
            session,
            f"INSERT INTO {session.keyspace}.speed_progress (family, partition, until, watermark) VALUES (?, ?, ?, ?) USING TIMESTAMP ?",
        )
        self._late = _prepare(
            session, f"INSERT INTO {session.keyspace}.speed_late (family, run, micro_batch, recorded_at, dropped) VALUES (?, ?, ?, ?, ?)"
        )

    def take(self) -> None:
        """Everything that the query has reported since the last call."""
        last = self._query.lastProgress
        if last is None or last["timestamp"] == self._seen:
            return
        # Turning a hundred kept reports into Python takes as long as a micro-batch: only when one was missed.
        missed = last["batchId"] > self._batch + 1
        for report in self._query.recentProgress if missed else [last]:
            if report["timestamp"] > self._seen:
                self._keep(json.loads(report.json))
                self._seen = report["timestamp"]

    def reached(self, position: Position) -> None:
        """Where the query is now: first offset not yet in the view, by partition. A max-register by that offset."""
        if self._family is None:
            return
        rows = [(self._family, partition, until, position.watermark, until) for partition, until in position.until.items()]
        write_all(self._session, [self._reach.bind(row) for row in rows])

    def _keep(self, report: Report) -> None:
        if "addBatch" not in report["durationMs"]:
            # A report of an idle query: no micro-batch ran.
            return
        line = progress_line(report)
        self._batch = line["batch_id"]
        if position := position_of(report):
            self.reached(position)
        if line["dropped"]:
            recorded_at = datetime.fromisoformat(line["timestamp"])
            late = (self._family, line["run_id"], line["batch_id"], recorded_at, line["dropped"])
            write_all(self._session, [self._late.bind(late)])
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def progress_file(home: Path, query: str) -> Path:
    """Where the lines of one query lie."""
    return home / "logs" / f"speed-progress-{query}.jsonl"


def progress_line(report: Report) -> dict[str, Any]:
    """One report as it is kept: micro-batch, records read, milliseconds by step, watermark, and what was left out."""
    operators = report["stateOperators"]
    observed = report.get("observedMetrics", {}).get(LEFT_OUT, {})
    return {
        "query": report["name"], "run_id": report["runId"], "batch_id": report["batchId"], "timestamp": report["timestamp"],
        "input_rows": report["numInputRows"], "duration_ms": report["durationMs"], "watermark": _watermark(report),
        "dropped": sum(operator["numRowsDroppedByWatermark"] for operator in operators),
        "below_floor": observed.get("below_floor", 0), "unreadable": observed.get("unreadable", 0),
        "repeats": observed.get("repeats", 0), "state_bytes": sum(operator["memoryUsedBytes"] for operator in operators),
        "until": _until(report),
    }  # fmt: skip


def position_of(report: Report) -> Position | None:
    """First offset not read and watermark after a micro-batch; None for a report that names no offsets."""
    until, watermark = _until(report), _watermark(report)
    if until is None or watermark is None:
        return None
    return Position({int(partition): offset for partition, offset in until.items()}, datetime.fromisoformat(watermark))


def _watermark(report: Report) -> str | None:
    # A query without state has no event time.
    watermark: str | None = report.get("eventTime", {}).get("watermark")
    return watermark


def _until(report: Report) -> dict[str, int] | None:
    offsets = report["sources"][0]["endOffset"]
    return None if offsets is None else next(iter(offsets.values()))


def _prepare(session: Session, text: str) -> PreparedStatement:
    statement = session.prepare(text)
    statement.is_idempotent = True
    return statement
