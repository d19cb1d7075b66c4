"""How far each query is.

To Cassandra for readers and lag, and as JSON lines for people and measurements.
"""

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
from cassandra.query import Statement
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from runtime.offsets import TopicOffsets, offsets_by_topic
from runtime.writes import prepared, write_all
from speed_layer.acks import LEFT_OUT, Ack, acks_of
from speed_layer.handover import Handover
from speed_layer.lastread import Memory
from speed_layer.session import Driver
from speed_layer.whole import WholeSince
from tally.errors import Unacknowledged
from tally.families import Family

# Some hours of micro-batches; with the file before it twice as much.
MOST_LINES_BYTES = 16 << 20
WRITE_AGAIN_SECONDS = 5.0
BEGINNING = datetime.fromtimestamp(0, UTC)
log = structlog.get_logger()
BatchReport = Mapping[str, Any]


class Progress:
    """Passes on every micro-batch's report of one query once.

    Of a query that keeps no views it goes to the lines only. What Cassandra does not take is kept
    and tried again: its absence ends no query that could go on.
    """

    def __init__(
        self,
        driver: Driver,
        query: StreamingQuery,
        families: Sequence[Family],
        memory: Memory,
        begins: Handover,
    ) -> None:
        session = driver.session
        self._session, self._query, self._memory = session, query, memory
        self._families = {family.topic: family for family in families}
        self._lateness = {
            family.topic: driver.settings.lateness_seconds(family) for family in families
        }
        self._watermarks: dict[tuple[str, int], datetime] = {}
        self._file = progress_file(driver.settings.home, query.name)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._seen, self.batch = "", -1
        self.position: TopicOffsets = {}
        self._waiting: list[Statement] = []
        self._whole = WholeSince(session, families, begins)
        self._next_write = 0.0
        # The offset is the write timestamp: a driver that wakes up late takes no reader back.
        self._reach = prepared(
            session,
            f"INSERT INTO {session.keyspace}.speed_progress (family, partition, until, watermark)"
            " VALUES (?, ?, ?, ?) USING TIMESTAMP ?",
        )
        self._late = prepared(
            session,
            f"INSERT INTO {session.keyspace}.speed_late"
            " (family, run, micro_batch, recorded_at, dropped) VALUES (?, ?, ?, ?, ?)",
        )

    def take(self) -> None:
        """Everything that the query has reported since the last call, and what waits."""
        last = self._query.lastProgress
        if last is not None and last["timestamp"] != self._seen:
            self._read(last)
        self._write()

    def begin(self, position: TopicOffsets) -> None:
        """Where the query goes on: first offset not yet in the views."""
        self._whole.begin(position)
        self.reached(position)

    def reached(self, position: TopicOffsets) -> None:
        """Where the query is now: first offset not yet in the views.

        A max-register by that offset.
        """
        before, self.position = self.position, position
        for topic, family in self._families.items():
            for partition, until in position[topic].items():
                if before.get(topic, {}).get(partition) != until:
                    watermark = self._watermarks.get((topic, partition), BEGINNING)
                    self._waiting += self._whole.writes(topic, partition, until)
                    self._waiting.append(
                        self._reach.bind((family.name, partition, until, watermark, until))
                    )

    def _read(self, last: StreamingQueryProgress) -> None:
        # Turning a hundred kept reports into Python takes as long as a micro-batch: only when one
        # was missed.
        missed = last["batchId"] > self.batch + 1
        for report in self._query.recentProgress if missed else [last]:
            # By number: the clock by which reports are stamped may be set back.
            if report["batchId"] > self.batch:
                self._keep(json.loads(report.json))
        self._seen = last["timestamp"]

    def _keep(self, report: BatchReport) -> None:
        if "addBatch" not in report["durationMs"]:
            # A report of an idle query: no micro-batch ran.
            return
        acks, line = acks_of(report), progress_line(report)
        self.batch = line["batch_id"]
        for ack in acks:
            if ack.frontier is not None and ack.topic in self._families:
                # Of a partition with no record that could be counted the frontier lies before any
                # datetime.
                seconds = max(0.0, ack.frontier / 1000 - self._lateness[ack.topic])
                self._watermarks[ack.topic, ack.partition] = datetime.fromtimestamp(seconds, UTC)
        # Before the offsets: whoever reads how far it has come reads by which definition too.
        self._whole.note(acks)
        if line["until"] is not None:
            self.reached(offsets_by_topic(line["until"]))
        self._memory.note(acks)
        self._note_late(acks, line)
        append_line(self._file, json.dumps(line))

    def _note_late(self, acks: Sequence[Ack], line: BatchReport) -> None:
        recorded_at = datetime.fromisoformat(line["timestamp"])
        for topic, family in self._families.items():
            # By topic alone: of a record that is dropped no store and window is left to be told.
            if late := sum(ack.late for ack in acks if ack.topic == topic):
                self._waiting.append(
                    self._late.bind(
                        (family.name, line["run_id"], line["batch_id"], recorded_at, late)
                    )
                )

    def _write(self) -> None:
        if not self._waiting or time.monotonic() < self._next_write:
            return
        try:
            # Tried once: this is the loop that beats, and it comes by again in a moment.
            write_all(self._session, self._waiting, seconds=0)
        except Unacknowledged as error:
            self._next_write = time.monotonic() + WRITE_AGAIN_SECONDS
            log.warning("progress waits", query=self._query.name, reason=str(error))
            return
        self._waiting = []


def append_line(file: Path, line: str, most_bytes: int = MOST_LINES_BYTES) -> None:
    """The line at the end of the file.

    A file that has grown too large becomes the one before, and that one goes.
    """
    if file.exists() and file.stat().st_size > most_bytes:
        file.replace(file.with_suffix(".1.jsonl"))
    with file.open("a", encoding="utf-8") as opened:
        opened.write(line + "\n")


def progress_file(home: Path, query: str) -> Path:
    """Where the lines of one query lie."""
    return home / "logs" / f"speed-progress-{query}.jsonl"


def progress_line(report: BatchReport) -> dict[str, Any]:
    """One report as it is kept, by field.

    Micro-batch, records read, milliseconds by step (duration_ms), how many records were late or
    left out and why, rows written, bytes of state, and `until`: first offset after it by topic and
    partition.
    """
    acks, offsets = acks_of(report), report["sources"][0]
    reasons = LEFT_OUT[1:]
    left_out = {name: sum(getattr(ack, name) for ack in acks) for name in reasons}
    return {
        # The demo, the audit and the benchmarks read these lines: the names are theirs too.
        "query": report["name"],
        "run_id": report["runId"],
        "batch_id": report["batchId"],
        "timestamp": report["timestamp"],
        "input_rows": report["numInputRows"],
        "duration_ms": report["durationMs"],
        "late": sum(ack.late for ack in acks),
        **left_out,
        "rows": sum(ack.rows for ack in acks),
        "state_bytes": sum(one["memoryUsedBytes"] for one in report["stateOperators"]),
        "until": offsets["endOffset"],
    }
