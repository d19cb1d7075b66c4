"""`python -m batch_layer.master.ingest`: appends every committed canonical record to the master.

Each record is appended once. A record's identity is (topic id, partition, offset): each append
starts where the table ends, regardless of the checkpoint.
"""

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import structlog
from cassandra.cluster import Session
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from batch_layer.master.positions import (
    MasterExtent,
    newest_snapshot,
    read_bounds_by_topic,
    read_extent,
    refuse_other_log,
    starting_offsets,
)
from batch_layer.master.progress import (
    IngestWatch,
    RunningQuery,
    last_fingerprints,
    read_days,
    upsert_days,
    upsert_position,
)
from batch_layer.master.table import append, create_table, master_records
from runtime.connect import cassandra_session
from runtime.kafka.log_identity import read_fingerprints, read_topic_ids
from runtime.kafka.offsets import TopicOffsets
from runtime.process.job import run_until_stopped, signal_ready
from runtime.process.lock import lock_folder
from runtime.process.priority import lower_process_priority
from runtime.records.gaps import AcceptedGap, read_gaps, skip_gaps
from runtime.registry.sources import FAMILIES
from runtime.spark.checkpoint import read_committed_position, read_planned_end, read_planned_start
from runtime.spark.jvm_lock import lock_folder_in_jvm
from runtime.spark.kafka_source import read_committed_records, read_committed_stream
from runtime.spark.session import build_session
from tally.config.settings import Settings
from tally.errors import DataLoss, TallyError

QUERY = "master"
log = structlog.get_logger()


@dataclass
class IngestState:
    """State of the query: how far it has read, and the refusal that ended it."""

    position: TopicOffsets
    refusal: TallyError | None = None


@dataclass(frozen=True)
class Ingest:
    """The session, settings and offsets that an append works with."""

    spark: SparkSession
    session: Session
    settings: Settings
    ids: Mapping[str, str]
    gaps: Sequence[AcceptedGap]
    state: IngestState


def main(argv: Sequence[str] | None = None) -> int:
    """Run the ingest and return its exit code.

    0 after SIGTERM or SIGINT, 1 when the query failed, 78 when records are missing or the settings
    are wrong.
    """
    if list(sys.argv[1:] if argv is None else argv):
        print("usage: python -m batch_layer.master.ingest (it takes no arguments)", file=sys.stderr)
        return 2
    # The views have priority: readers of the master wait for a rebuild anyway.
    lower_process_priority()
    return run_until_stopped("master ingest", lambda stop: _ingest(Settings.load(), stop))


def _ingest(settings: Settings, stop: threading.Event) -> None:
    with lock_folder(settings.master_path):
        spark = build_session(settings, "tally-master")
        # The JVM of a killed ingest may still be committing: the rows that it appends in that
        # moment would be appended here once more, to a table whose rows never change.
        with (
            lock_folder_in_jvm(spark, settings.master_path),
            cassandra_session(settings) as session,
        ):
            running = start_ingest(spark, session, settings)
            signal_ready(settings)
            IngestWatch(settings, session).watch_until_stopped(running, stop)


def start_ingest(
    spark: SparkSession, session: Session, settings: Settings, **options: str
) -> RunningQuery:
    """Start the query over all canonical topics; `options` go to the Kafka source.

    Raises DataLoss when Kafka no longer keeps records that the table lacks, or a log is not the one
    that the table's records came from.
    """
    topics = [family.topic for family in FAMILIES.values()]
    create_table(spark, settings.master_path)
    extent, ids = read_extent(settings.master_path), read_topic_ids(settings, topics)
    # Fingerprints are read first: a record deleted between the two reads is then known to be gone.
    fingerprints, retained = (
        read_fingerprints(settings, extent.last_record_places()),
        read_bounds_by_topic(settings, topics),
    )
    gaps = read_gaps(session, topics)
    next_offsets = skip_gaps(extent.until, gaps)
    # The start follows from the table and never from the checkpoint's batch numbers: an older
    # checkpoint, restored with larger micro-batches, lost 20 of 65 records without an error (seen).
    starting = starting_offsets(MasterExtent(extent.topic_ids, next_offsets), ids, retained)
    refuse_other_log(extent, retained, fingerprints)
    if next_offsets != extent.until:
        _set_aside_old_checkpoint(settings.checkpoint(QUERY), next_offsets)
    ingest = Ingest(spark, session, settings, ids, gaps, IngestState(starting))
    # Without this, an ingest that is restarted behind a transaction's marker would seem to lag
    # until the next record arrives.
    ingest.state.position = _read_positions(ingest, starting)
    return RunningQuery(
        _query(ingest, starting, options),
        lambda: ingest.state.position,
        lambda: ingest.state.refusal,
    )


def _read_positions(ingest: Ingest, starting: TopicOffsets) -> TopicOffsets:
    """The offsets that an earlier run of the query has read up to.

    They lie beyond the table's end where only transaction markers follow it.
    """
    before = read_committed_position(ingest.settings.checkpoint(QUERY)) or {}

    def resume_offset(topic: str, partition: int, start: int) -> int:
        offset = before.get(topic, {}).get(partition, 0)
        span = start, offset
        is_read = offset > start and not _count_committed(ingest, topic, partition, span)
        return offset if is_read else start

    return {
        topic: {number: resume_offset(topic, number, start) for number, start in offsets.items()}
        for topic, offsets in starting.items()
    }


def _query(ingest: Ingest, starting: TopicOffsets, options: Mapping[str, str]) -> StreamingQuery:
    settings = ingest.settings
    records = read_committed_stream(ingest.spark, settings, starting, **options)
    writer = records.writeStream.queryName(QUERY).option(
        "checkpointLocation", str(settings.checkpoint(QUERY))
    )
    writer = writer.foreachBatch(lambda batch, number: _append_or_refuse(ingest, batch, number))
    return writer.trigger(processingTime=f"{settings.ingest_trigger_seconds} seconds").start()


def _set_aside_old_checkpoint(checkpoint: Path, next_offsets: TopicOffsets) -> None:
    """Move a checkpoint from before a gap aside.

    It would request records that are gone, and each append starts where the table ends.
    """
    done = read_committed_position(checkpoint) or {}
    is_before = any(
        done.get(topic, {}).get(number, 0) < offset
        for topic, offsets in next_offsets.items()
        for number, offset in offsets.items()
    )
    if is_before and checkpoint.exists():
        checkpoint.rename(checkpoint.with_name(f"{checkpoint.name}-before-gap-{int(time.time())}"))


def _append_or_refuse(ingest: Ingest, batch: DataFrame, number: int) -> None:
    # Spark wraps an error raised here: the refusal itself decides whether a restart may help.
    try:
        append_batch(ingest, batch, number)
    except TallyError as error:
        ingest.state.refusal = error
        raise


def append_batch(ingest: Ingest, batch: DataFrame, number: int) -> None:
    """Append the records of one micro-batch that the table lacks.

    Raises DataLoss when records between the table and the batch are missing, AlreadyRunning when
    another ingester has appended meanwhile.

    In:  the Kafka source's columns; number: that of the micro-batch in the checkpoint.
    Out: nothing but the rows in the table, its note, and the positions in Cassandra.
    """
    # The offsets held and their version are read together: another ingester may append after this.
    snapshot = newest_snapshot(ingest.settings.master_path)
    extent = snapshot.extent
    checkpoint = ingest.settings.checkpoint(QUERY)
    # The planned offsets, not those of a new query: the table may have been lost since this began.
    start, end = read_planned_start(checkpoint, number), read_planned_end(checkpoint, number)
    _refuse_missing_records(ingest, skip_gaps(extent.until, ingest.gaps), start)
    # The frame is persisted: two actions read it, and each would read Kafka again.
    fresh = master_records(
        batch.where(reduce(Column.__or__, list(_new_record_conditions(extent.until, end))))
    ).persist()
    try:
        days = read_days(fresh)
        # Days are noted before the append: a crash between the two must leave a day dirty, never
        # clean with records that no generation has.
        upsert_days(ingest.session, days)
        if days:
            fingerprints = {
                topic: {
                    **extent.fingerprints.get(topic, {}),
                    **last_fingerprints(days).get(topic, {}),
                }
                for topic in end
            }
            append(
                fresh,
                ingest.settings.master_path,
                snapshot,
                MasterExtent(ingest.ids, _furthest_offsets(extent.until, end), fingerprints),
            )
        # The position comes last: a reader of it finds all records below it in the table.
        upsert_position(ingest.session, end)
        ingest.state.position = end
        rows = sum(day["rows"] for day in days)
        log.info("append", micro_batch=number, rows=rows, until=end)
    finally:
        fresh.unpersist()


def _refuse_missing_records(ingest: Ingest, until: TopicOffsets, start: TopicOffsets) -> None:
    """Raise DataLoss if a committed record lies between the table's end and the batch's start."""
    for topic, offsets in start.items():
        for partition, offset in offsets.items():
            end = until.get(topic, {}).get(partition, 0)
            # Offsets alone do not decide: markers and aborted records may lie between the two.
            if offset > end and _count_committed(ingest, topic, partition, (end, offset)):
                raise DataLoss(
                    f"topic {topic} partition {partition}: the checkpoint goes on at offset"
                    f" {offset}, the master dataset ends at {end}; move the folder"
                    f" {ingest.settings.checkpoint(QUERY)} away,"
                    " the ingest then goes on where the table ends"
                )


def _count_committed(
    ingest: Ingest,
    topic: str,
    partition: int,
    span: tuple[int, int],
) -> int:
    """Count the committed records in [span) of one partition.

    Transaction markers and aborted records do not count.
    """
    first, end = ({topic: {partition: offset}} for offset in span)
    return read_committed_records(ingest.spark, ingest.settings, first, end).count()


def _end_offset(until: TopicOffsets, topic: str, number: int) -> int:
    return until.get(topic, {}).get(number, 0)


def _new_record_conditions(until: TopicOffsets, end: TopicOffsets) -> list[Column]:
    """One condition for each partition: the record is not in the table yet."""
    # A query with a lost checkpoint reads records that the table has: without this condition the
    # table got 110 rows for 65 records (seen).
    return [
        (F.col("topic") == topic)
        & (F.col("partition") == number)
        & (F.col("offset") >= _end_offset(until, topic, number))
        for topic, offsets in end.items()
        for number in offsets
    ]


def _furthest_offsets(until: TopicOffsets, end: TopicOffsets) -> dict[str, dict[int, int]]:
    return {
        topic: {
            # The higher offset: a micro-batch that the table already had ends before the table.
            number: max(offset, _end_offset(until, topic, number))
            for number, offset in offsets.items()
        }
        for topic, offsets in end.items()
    }


if __name__ == "__main__":
    sys.exit(main())
