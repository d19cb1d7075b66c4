"""Progress of each query, in Cassandra for readers, and as JSON lines for people and measurements.

So is the definition by which a partition is read, and the window from which on its rows are whole.
Judging uses both for windows that are in no generation yet: before that window some records are in
no row, and their absence is no silence.
"""

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
from cassandra.cluster import Session
from cassandra.query import Statement
from pyspark.sql.streaming.query import StreamingQuery

from runtime.cassandra.writes import prepare_idempotent, write_all
from runtime.kafka.offsets import TopicOffsets, parse_offsets
from runtime.kafka.topics import PartitionId
from speed_layer.checkpoint_files import StartPosition, TopicCheckpoint
from speed_layer.session import Driver
from speed_layer.state.records import SKIP_REASONS, PartitionReport, parse_reports
from tally.errors import CassandraWriteTimeout
from tally.families.family import Family
from tally.time.day_clock import MAX_KEY_DAYS
from tally.time.instants import DAY_MILLIS, to_millis
from tally.time.windows import EPOCH, window_start

# Room for some hours of micro-batches; with the previous file twice as much.
MAX_LINES_BYTES = 16 << 20
WRITE_AGAIN_SECONDS = 5.0
log = structlog.get_logger()
BatchReport = Mapping[str, Any]


class Progress:
    """Passes on the report of every micro-batch of one query once.

    Reports of a query without views go to the lines only. Rows that Cassandra does not acknowledge
    are kept and retried: its absence ends no query that could go on.
    """

    def __init__(
        self,
        driver: Driver,
        query: StreamingQuery,
        families: Sequence[Family],
        memory: TopicCheckpoint,
        start_position: StartPosition,
    ) -> None:
        session = driver.session
        self._session, self._query, self._topic_checkpoint = session, query, memory
        self._families = {family.topic: family for family in families}
        self._lateness = {
            family.topic: driver.settings.lateness_seconds(family) for family in families
        }
        self._watermarks: dict[tuple[str, int], datetime] = {}
        # By family, quarter hour and run: of the last quarter hour.
        self._late, self._late_in = Counter[tuple[str, datetime, str]](), EPOCH
        self._late_seconds = driver.settings.speed_retention_days * 86_400
        self._file = progress_file(driver.settings.home, query.name)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._last_timestamp, self.batch = "", -1
        self.position: TopicOffsets = {}
        self._waiting: list[Statement] = []
        self._complete_from = CompleteFrom(session, families, start_position)
        self._next_write = 0.0
        # The offset is the write timestamp: a driver that wakes up late moves no reader back.
        self._insert_position = prepare_idempotent(
            session,
            f"INSERT INTO {session.keyspace}.speed_progress (family, partition, until, watermark)"
            " VALUES (?, ?, ?, ?) USING TIMESTAMP ?",
        )
        self._insert_late = prepare_idempotent(
            session,
            f"INSERT INTO {session.keyspace}.speed_late (family, recorded_in, run, dropped)"
            " VALUES (?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?",
        )

    def take(self) -> None:
        """Pass on all reports of the query since the last call, and write waiting rows."""
        last = self._query.lastProgress
        if last is not None and last["timestamp"] != self._last_timestamp:
            # All kept reports only when one was missed: converting them takes long.
            missed = last["batchId"] > self.batch + 1
            for progress in self._query.recentProgress if missed else [last]:
                # Compared by number: the clock that stamps reports may be set back.
                if progress["batchId"] > self.batch:
                    self._process_report(json.loads(progress.json))
            self._last_timestamp = last["timestamp"]
        self._write()

    def record_start(self, position: TopicOffsets) -> None:
        """Note where the query resumes: the first offset not yet in the views."""
        self._complete_from.begin(position)
        self.record_position(position)

    def record_position(self, position: TopicOffsets) -> None:
        """Note where the query is now: the first offset not yet in the views, as a max-register."""
        before, self.position = self.position, position
        for topic, family in self._families.items():
            for partition, until in position[topic].items():
                if before.get(topic, {}).get(partition) != until:
                    watermark = self._watermarks.get((topic, partition), EPOCH)
                    self._waiting += self._complete_from.build_writes(topic, partition, until)
                    row = (family.name, partition, until, watermark, until)
                    self._waiting.append(self._insert_position.bind(row))

    def _process_report(self, batch_report: BatchReport) -> None:
        # In the report of an idle query no micro-batch ran.
        if "addBatch" not in batch_report["durationMs"]:
            return
        reports, line = parse_reports(batch_report), progress_line(batch_report)
        self.batch = line["batch_id"]
        for report in reports:
            if report.frontier is not None and report.topic in self._families:
                # The frontier of a partition without countable records lies before any datetime.
                seconds = max(0.0, report.frontier / 1000 - self._lateness[report.topic])
                reached = datetime.fromtimestamp(seconds, UTC)
                self._watermarks[report.topic, report.partition] = reached
        # Noted before the offsets: a reader of the position finds its definition too.
        self._complete_from.note(reports)
        if line["until"] is not None:
            self.record_position(parse_offsets(line["until"]))
        self._topic_checkpoint.note(reports)
        recorded_in = window_start(datetime.fromisoformat(line["timestamp"]))
        for topic, family in self._families.items():
            # Counted by topic only: the store and window of a dropped record are not known here.
            late = sum(report.late for report in reports if report.topic == topic)
            if late:
                place = (family.name, recorded_in, line["run_id"])
                if recorded_in != self._late_in:
                    # Of earlier quarter hours nothing changes any more.
                    self._late_in, self._late = recorded_in, Counter()
                self._late[place] += late
                row = (*place, self._late[place], line["batch_id"], self._late_seconds)
                self._waiting.append(self._insert_late.bind(row))
        append_line(self._file, json.dumps(line))

    def _write(self) -> None:
        if not self._waiting or time.monotonic() < self._next_write:
            return
        try:
            # One try: this loop also writes the heartbeat, and it returns here in a moment.
            write_all(self._session, self._waiting, seconds=0)
        except CassandraWriteTimeout as error:
            self._next_write = time.monotonic() + WRITE_AGAIN_SECONDS
            log.warning("progress waits", query=self._query.name, reason=str(error))
            return
        self._waiting = []


def append_line(file: Path, line: str, most_bytes: int = MAX_LINES_BYTES) -> None:
    """Append the line to the file; one that has grown too large replaces the previous one."""
    if file.exists() and file.stat().st_size > most_bytes:
        file.replace(file.with_suffix(".1.jsonl"))
    with file.open("a", encoding="utf-8") as opened:
        opened.write(line + "\n")


def progress_file(home: Path, query: str) -> Path:
    """The path of the file with the lines of one query."""
    return home / "logs" / f"speed-progress-{query}.jsonl"


def progress_line(batch_report: BatchReport) -> dict[str, Any]:
    """The fields of one report's line.

    They are milliseconds by step (duration_ms), counts of records that were read, late, or left out
    by reason, rows written, bytes of state, and `until`: the first offset after the micro-batch.
    """
    reports, reasons = parse_reports(batch_report), SKIP_REASONS[1:]
    left_out = {name: sum(getattr(report, name) for report in reports) for name in reasons}
    return {
        # The demo, the audit and the benchmarks read these lines and depend on the names.
        "query": batch_report["name"],
        "run_id": batch_report["runId"],
        "batch_id": batch_report["batchId"],
        "timestamp": batch_report["timestamp"],
        "input_rows": batch_report["numInputRows"],
        "duration_ms": batch_report["durationMs"],
        "late": sum(report.late for report in reports),
        **left_out,
        "rows": sum(report.rows for report in reports),
        "state_bytes": sum(state["memoryUsedBytes"] for state in batch_report["stateOperators"]),
        "until": batch_report["sources"][0]["endOffset"],
    }


# Days by a store's clock; one is added, since the clock may be set back across their end.
LONGEST_PERIOD_MILLIS = (MAX_KEY_DAYS + 1) * DAY_MILLIS


class CompleteFrom:
    """The first whole window of each partition, once it is known by the current definition."""

    def __init__(
        self, session: Session, families: Sequence[Family], start_position: StartPosition
    ) -> None:
        self._families = {family.topic: family for family in families}
        self._start_position = start_position
        # A register by offset in each epoch: a driver that wakes up late changes nothing.
        self._write = prepare_idempotent(
            session,
            f"INSERT INTO {session.keyspace}.speed_epoch"
            " (family, partition, epoch, until, floor) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?",
        )
        stored = prepare_idempotent(
            session,
            f"SELECT partition, epoch, floor FROM {session.keyspace}.speed_epoch WHERE family = ?",
        )
        # In milliseconds since 1970 (UTC), as stored earlier by the same definition.
        self._floors: dict[PartitionId, int] = {
            (family.topic, row.partition): row.floor
            for family in families
            for row in session.execute(stored, [family.name])
            if row.epoch == family.epochs.highest
        }

    def begin(self, position: TopicOffsets) -> None:
        """Note where the query resumes; the floor of a partition without state is known."""
        # For other partitions only the state has the answer, which is loaded with the next record:
        # the definition may differ from that of the previous driver. Until then the previous
        # driver's row is valid, since nothing has been read after it.
        for topic, starting in self._start_position.offsets.items():
            for number, offset in position.get(topic, {}).items():
                if topic in self._families and starting.get(number) == offset:
                    self._raise_floor(topic, number, 0)

    def note(self, reports: Iterable[PartitionReport]) -> None:
        """Note the floors that the micro-batch of the reports has found in the state."""
        for report in reports:
            if report.topic in self._families and report.floor is not None:
                self._raise_floor(report.topic, report.partition, report.floor)

    def build_writes(self, topic: str, number: int, until: int) -> list[Statement]:
        """Statements that store how far a partition is read, if its first whole window is known."""
        family, floor = self._families[topic], self._floors.get((topic, number))
        if floor is None:
            return []
        row = (family.name, number, family.epochs.highest, until, floor)
        return [self._write.bind((*row, until))]

    def _raise_floor(self, topic: str, number: int, floor: int) -> None:
        family = self._families[topic]
        start = self._start_position.floors.get(family.name)
        begun = 0 if start is None else to_millis(start)
        found, partition_id = complete_from(family, max(floor, begun)), (topic, number)
        self._floors[partition_id] = max(found, self._floors.get(partition_id, 0))


def complete_from(family: Family, floor: int) -> int:
    """From when on windows are whole, if records below the floor are left out; 0 means always.

    Both are in milliseconds since 1970 (UTC).
    """
    if floor <= 0:
        return 0
    # Presences are left out by the begin of their key period, which may reach across the floor.
    return floor if family.reading is None else floor + LONGEST_PERIOD_MILLIS
