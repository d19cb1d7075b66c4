"""`python -m batch_layer.master.ingest`: appends every committed canonical record to the master.

Each record is appended once. A record's identity is (topic id, partition, offset): each append
starts where the table ends, regardless of the checkpoint.
"""

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial, reduce
from pathlib import Path

import structlog
from cassandra.cluster import Session
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from batch_layer.links.changed_days import upsert_days
from batch_layer.links.ingest_links import IngestLinks
from batch_layer.master.extent import MasterExtent
from batch_layer.master.files import FilePart, write_files
from batch_layer.master.positions import (
    offset_at,
    read_bounds_by_topic,
    refuse_other_log,
    starting_offsets,
)
from batch_layer.master.progress import (
    IngestState,
    IngestWatch,
    RunningQuery,
    days_of_parts,
    last_fingerprints,
    upsert_arrivals,
    upsert_position,
)
from batch_layer.master.table import MasterTable, master_records
from runtime.connect import cassandra_session
from runtime.kafka.log_identity import read_fingerprints, read_topic_ids
from runtime.kafka.offsets import TopicOffsets, find_unread, flatten_offsets
from runtime.process.files import lock_folder
from runtime.process.job import lower_process_priority, run_until_stopped, signal_ready
from runtime.records.gaps import AcceptedGap, read_gaps, skip_gaps
from runtime.registry.sources import FAMILIES
from runtime.spark.checkpoint import read_committed_position, read_planned_end, read_planned_start
from runtime.spark.kafka_source import read_committed_records, read_committed_stream
from runtime.spark.session import build_session, lock_folder_in_jvm
from tally.config.settings import Settings
from tally.errors import DataLoss, TallyError

QUERY = "master"
log = structlog.get_logger()


@dataclass(frozen=True)
class Ingest:
    """The session, settings and offsets that an append works with."""

    spark: SparkSession
    session: Session
    settings: Settings
    ids: Mapping[str, str]
    gaps: Sequence[AcceptedGap]
    state: IngestState
    master: MasterTable
    links: IngestLinks


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
        jvm_lock = lock_folder_in_jvm(spark, settings.master_path)
        with jvm_lock, cassandra_session(settings) as session:
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
    master, ids = MasterTable.open(settings.master_path), read_topic_ids(settings, topics)
    extent = master.extent
    # Fingerprints are read first: a record deleted between the two reads is then known to be gone.
    fingerprints = read_fingerprints(settings, extent.last_record_places())
    retained = read_bounds_by_topic(settings, topics)
    gaps = read_gaps(session, topics)
    next_offsets = skip_gaps(extent.until, gaps)
    # The start follows from the table and never from the checkpoint's batch numbers: an older
    # checkpoint, restored with larger micro-batches, lost 20 of 65 records without an error (seen).
    starting = starting_offsets(MasterExtent(extent.topic_ids, next_offsets), ids, retained)
    refuse_other_log(extent, retained, fingerprints)
    if next_offsets != extent.until:
        _set_aside_old_checkpoint(settings.checkpoint(QUERY), next_offsets)
    state = IngestState(starting)
    links = IngestLinks(session, settings.first_copies_path)
    ingest = Ingest(spark, session, settings, ids, gaps, state, master, links)
    _complete_indexes(ingest)
    # Without this, an ingest that is restarted behind a transaction's marker would seem to lag
    # until the next record arrives.
    ingest.state.position = _read_positions(ingest, starting)
    return RunningQuery(_start_query(ingest, starting, options), ingest.state)


def _read_positions(ingest: Ingest, starting: TopicOffsets) -> TopicOffsets:
    """The ends that an earlier run has read up to: beyond the table's where only markers follow."""
    before = read_committed_position(ingest.settings.checkpoint(QUERY)) or {}

    def resume_offset(topic: str, partition: int, start: int) -> int:
        offset = offset_at(before, topic, partition)
        is_read = offset > start and not _count_committed(ingest, topic, partition, start, offset)
        return offset if is_read else start

    return {
        topic: {number: resume_offset(topic, number, start) for number, start in offsets.items()}
        for topic, offsets in starting.items()
    }


def _start_query(
    ingest: Ingest, starting: TopicOffsets, options: Mapping[str, str]
) -> StreamingQuery:
    settings = ingest.settings
    # A day's outage is caught up in many micro-batches, and not in one of a day's records.
    options = {"maxOffsetsPerTrigger": str(settings.ingest_batch_records), **options}
    writer = read_committed_stream(ingest.spark, settings, starting, **options).writeStream
    writer = writer.queryName(QUERY).option("checkpointLocation", str(settings.checkpoint(QUERY)))
    writer = writer.foreachBatch(lambda batch, number: _append_or_refuse(ingest, batch, number))
    return writer.trigger(processingTime=f"{settings.ingest_trigger_seconds} seconds").start()


def _set_aside_old_checkpoint(checkpoint: Path, next_offsets: TopicOffsets) -> None:
    """Move a checkpoint from before a gap aside: it would request records that are gone."""
    done = flatten_offsets(read_committed_position(checkpoint) or {})
    if find_unread(flatten_offsets(next_offsets), done) and checkpoint.exists():
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
    Out: nothing but the rows and offsets in the table, and the positions in Cassandra.
    """
    checkpoint = ingest.settings.checkpoint(QUERY)
    extent = ingest.master.refresh()
    # The planned offsets, not those of a new query: the table may have been lost since this began.
    start, end = read_planned_start(checkpoint, number), read_planned_end(checkpoint, number)
    _refuse_missing_records(ingest, skip_gaps(extent.until, ingest.gaps), start)
    fresh = master_records(batch.where(_is_new(extent.until, end)))
    parts = write_files(fresh, ingest.settings.master_path)
    # Days are noted before the commit: a crash between the two must leave a day dirty, never clean
    # with records that no generation has.
    upsert_days(ingest.session, days_of_parts(parts))
    _link(ingest, parts)
    upsert_arrivals(ingest.session, parts)
    if parts:
        known, newest = extent.fingerprints, last_fingerprints(parts)
        fingerprints = {
            topic: {
                **known.get(topic, {}),
                **newest.get(topic, {}),
            }
            for topic in end
        }
        until = _furthest_offsets(extent.until, end)
        ingest.master.append(parts, MasterExtent(ingest.ids, until, fingerprints))
    # The position comes last: a reader of it finds all records below it in the table.
    upsert_position(ingest.session, end)
    ingest.state.position = end
    rows = sum(part.rows for part in parts)
    log.info("append", micro_batch=number, rows=rows, until=end)


def _link(ingest: Ingest, parts: Sequence[FilePart]) -> None:
    """Link the records of the files that are to be appended."""
    for family in sorted({part.source for part in parts}):
        own = [part for part in parts if part.source == family]
        # The part that reaches furthest overwrites the others.
        ascending = sorted(own, key=lambda part: part.last_offset)
        until = {part.partition: part.last_offset + 1 for part in ascending}
        files = ingest.master.locate({part.path for part in own})
        of_day = partial(_files_of_day, ingest.master, own)
        ingest.links.add(family, files, until, of_day)


def _files_of_day(master: MasterTable, own: Sequence[FilePart], day: date) -> list[str]:
    """The files of a family's day, with those that are to be appended."""
    new = {part.path for part in own if part.event_date == day}
    return [*master.files_of_day(own[0].source, day), *master.locate(new)]


def _complete_indexes(ingest: Ingest) -> None:
    """Index the records of the master that an index lacks: all of them where it was lost."""
    extent = ingest.master.extent
    for family, by_partition in extent.fingerprints.items():
        last = {number: found.offset for number, found in by_partition.items()}
        if unread := ingest.links.unread(family, last):
            files = ingest.master.files_beyond(family, unread)
            log.info("index of first copies", family=family, files=len(files))
            until = {number: offset + 1 for number, offset in last.items()}
            ingest.links.add(family, files, until, lambda _: [])


def _refuse_missing_records(ingest: Ingest, until: TopicOffsets, start: TopicOffsets) -> None:
    """Raise DataLoss if a committed record lies between the table's end and the batch's start."""
    for (topic, partition), offset in flatten_offsets(start).items():
        end = offset_at(until, topic, partition)
        # Offsets alone do not decide: markers and aborted records may lie between the two.
        if offset > end and _count_committed(ingest, topic, partition, end, offset):
            raise DataLoss(
                f"topic {topic} partition {partition}: the checkpoint goes on at offset"
                f" {offset}, the master dataset ends at {end}; move the folder"
                f" {ingest.settings.checkpoint(QUERY)} away,"
                " the ingest then goes on where the table ends"
            )


def _count_committed(ingest: Ingest, topic: str, number: int, *bounds: int) -> int:
    # The bounds are the first offset and the end; markers and aborted records do not count.
    span = ({topic: {number: offset}} for offset in bounds)
    return read_committed_records(ingest.spark, ingest.settings, *span).count()


def _is_new(until: TopicOffsets, end: TopicOffsets) -> Column:
    """Whether the record is not in the table yet."""
    # A query with a lost checkpoint reads records that the table has: without this condition the
    # table got 110 rows for 65 records (seen).
    conditions = [
        (F.col("topic") == topic)
        & (F.col("partition") == number)
        & (F.col("offset") >= offset_at(until, topic, number))
        for topic, number in flatten_offsets(end)
    ]
    return reduce(Column.__or__, conditions)


def _furthest_offsets(until: TopicOffsets, end: TopicOffsets) -> dict[str, dict[int, int]]:
    # The higher offset: a micro-batch that the table already had ends before the table.
    return {
        topic: {
            number: max(offset, offset_at(until, topic, number))
            for number, offset in offsets.items()
        }
        for topic, offsets in end.items()
    }


if __name__ == "__main__":
    sys.exit(main())
