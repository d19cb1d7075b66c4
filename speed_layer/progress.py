"""How far each query is: to Cassandra for readers and lag, and as JSON lines for people and measurements."""

import json
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import structlog
from cassandra.cluster import PreparedStatement, Session
from cassandra.query import Statement
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from runtime.writes import Unacknowledged, write_all
from speed_layer.checkpoint import Position
from speed_layer.handover import Driver
from speed_layer.lastread import Memory
from speed_layer.view import LEFT_OUT

# Some hours of micro-batches; with the file before it twice as much.
MOST_LINES_BYTES = 16 << 20
WRITE_AGAIN_SECONDS = 5.0
BEGINNING = "1970-01-01T00:00:00Z"
log = structlog.get_logger()
Report = Mapping[str, Any]


class Progress:
    """Passes on every micro-batch's report of one query once; reports of queries that keep no view go to the lines only.

    What Cassandra does not take is kept and tried again: its absence ends no query that could go on.
    """

    def __init__(self, driver: Driver, query: StreamingQuery, family: str | None, memory: Memory) -> None:
        session = driver.session
        self._session, self._query, self._family, self._memory = session, query, family, memory
        self._file = progress_file(driver.settings.home, query.name)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._seen, self.batch = "", -1
        self.position: Position | None = None
        self._waiting: list[Statement] = []
        self._next_write = 0.0
        self._reach = _prepare(
            session,
            f"INSERT INTO {session.keyspace}.speed_progress (family, partition, until, watermark) VALUES (?, ?, ?, ?) USING TIMESTAMP ?",
        )
        self._late = _prepare(
            session, f"INSERT INTO {session.keyspace}.speed_late (family, run, micro_batch, recorded_at, dropped) VALUES (?, ?, ?, ?, ?)"
        )

    def take(self) -> None:
        """Everything that the query has reported since the last call, and what waits."""
        last = self._query.lastProgress
        if last is not None and last["timestamp"] != self._seen:
            self._read(last)
        self._write()

    def reached(self, position: Position) -> None:
        """Where the query is now: first offset not yet in the view, by partition. A max-register by that offset."""
        self.position = position
        if self._family is None:
            return
        for partition, until in position.until.items():
            self._waiting.append(self._reach.bind((self._family, partition, until, position.watermark, until)))

    def _read(self, last: StreamingQueryProgress) -> None:
        # Turning a hundred kept reports into Python takes as long as a micro-batch: only when one was missed.
        missed = last["batchId"] > self.batch + 1
        for report in self._query.recentProgress if missed else [last]:
            # By number: the clock by which reports are stamped may be set back.
            if report["batchId"] > self.batch:
                self._keep(json.loads(report.json))
        self._seen = last["timestamp"]

    def _keep(self, report: Report) -> None:
        if "addBatch" not in report["durationMs"]:
            # A report of an idle query: no micro-batch ran.
            return
        line = progress_line(report)
        self.batch = line["batch_id"]
        if position := position_of(report):
            self.reached(position)
        self._memory.note(report)
        if line["dropped"] and self._family:
            recorded_at = datetime.fromisoformat(line["timestamp"])
            self._waiting.append(self._late.bind((self._family, line["run_id"], line["batch_id"], recorded_at, line["dropped"])))
        append_line(self._file, json.dumps(line))

    def _write(self) -> None:
        if not self._waiting or time.monotonic() < self._next_write:
            return
        try:
            write_all(self._session, self._waiting, seconds=0)
        except Unacknowledged as error:
            self._next_write = time.monotonic() + WRITE_AGAIN_SECONDS
            log.warning("progress waits", query=self._query.name, reason=str(error))
            return
        self._waiting = []


def append_line(file: Path, line: str, most_bytes: int = MOST_LINES_BYTES) -> None:
    """The line at the end of the file; one that has grown too large becomes the one before, and that one goes."""
    if file.exists() and file.stat().st_size > most_bytes:
        file.replace(file.with_suffix(".1.jsonl"))
    with file.open("a", encoding="utf-8") as opened:
        opened.write(line + "\n")


def progress_file(home: Path, query: str) -> Path:
    """Where the lines of one query lie."""
    return home / "logs" / f"speed-progress-{query}.jsonl"


def progress_line(report: Report) -> dict[str, Any]:
    """One report as it is kept: micro-batch, records read, milliseconds by step, watermark, and what was left out."""
    operators = report["stateOperators"]
    observed = report.get("observedMetrics", {}).get(LEFT_OUT, {})
    left_out = {name: observed.get(name, 0) for name in ("below_floor", "unreadable", "repeats", "ahead")}
    return {
        "query": report["name"], "run_id": report["runId"], "batch_id": report["batchId"], "timestamp": report["timestamp"],
        "input_rows": report["numInputRows"], "duration_ms": report["durationMs"], "watermark": _watermark(report),
        "dropped": sum(operator["numRowsDroppedByWatermark"] for operator in operators), **left_out,
        "state_bytes": sum(operator["memoryUsedBytes"] for operator in operators), "until": _until(report),
    }  # fmt: skip


def position_of(report: Report) -> Position | None:
    """First offset not read and watermark (of a query without one: 1970) after a micro-batch; None for a report without offsets."""
    until = _until(report)
    if until is None:
        return None
    return Position(
        {int(partition): offset for partition, offset in until.items()}, datetime.fromisoformat(_watermark(report) or BEGINNING)
    )


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
