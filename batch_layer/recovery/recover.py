"""`python -m batch_layer.recovery.recover`: makes what was lost ready for a rebuild of all views.

It finds out by itself what was lost: logs of Kafka, the tables of Cassandra, or both. Logs go on
where the master dataset ends; what Cassandra holds about the master, or people have decided, is
written again. The views themselves are rebuilt afterwards (`tally recover` does all of it).
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

import structlog
from cassandra.cluster import Session

from batch_layer.master.extent import MasterExtent
from batch_layer.master.table import MasterTable
from batch_layer.recovery.logs import continue_logs, find_other_logs, find_short_logs
from batch_layer.recovery.tables import read_raw_ends, rebuild_links, rebuild_registers
from batch_layer.views.publish.pointer import PointerTable
from runtime.connect import NORMALISER_GROUP, cassandra_session
from runtime.kafka.groups import move_positions
from runtime.kafka.log_identity import read_topic_ids
from runtime.kafka.offsets import flatten_offsets
from runtime.kafka.topics import PartitionId
from runtime.process.files import lock_folder
from runtime.process.job import run_job
from runtime.records.control_copies import (
    BASELINES,
    FLIPS,
    TABLES,
    read_copy,
    write_copied_rows,
)
from runtime.records.gaps import AcceptedGap, read_gaps, skip_gaps, store_gap
from runtime.registry.sources import FAMILIES
from schemas import loader
from tally.alerts.baseline import repin_days
from tally.config.settings import Settings
from tally.errors import TallyError
from tally.time.instants import from_millis

# The streaming queries, which name their checkpoint folders.
_QUERIES = ("views", "receipts", "master")
_REASON = "lost with the log of its topic: found by `tally recover`"
# The copies are a day old: so many runs may have taken a token since.
_TOKENS_SINCE_COPY = 1_000
_NEVER = datetime.fromtimestamp(0, UTC)
log = structlog.get_logger()


@dataclass(frozen=True)
class RecoveryReport:
    """What was lost, and what has been written again.

    logs: partitions whose new log goes on at the old offsets; resent: records that it had before;
    lost_records: offsets that a layer had read and the master lacks, accepted as gaps; decisions:
    rows of the copies beside the master.
    """

    lost: Sequence[str]
    logs: int = 0
    resent: int = 0
    lost_records: int = 0
    decisions: int = 0
    days: int = 0


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare the recovery; return the exit code: 0 done, 1 failed, 78 refused, 2 usage."""
    parser = argparse.ArgumentParser(
        prog="python -m batch_layer.recovery.recover",
        description="Make what was lost ready for a rebuild of all views from the master dataset.",
    )
    parser.add_argument(
        "--baselines",
        action="store_true",
        help="once the views are rebuilt: fix the nights' baselines again",
    )
    given = parser.parse_args(argv)

    def work() -> None:
        settings = Settings.load()
        with cassandra_session(settings) as session:
            if given.baselines:
                print(json.dumps({"baselines": restore_baselines(session, settings)}))
                return
            with _hold_folders(settings):
                print(json.dumps(asdict(recover(session, settings))))

    return run_job("recover", work)


@contextmanager
def _hold_folders(settings: Settings) -> Iterator[None]:
    """Hold what ingest and speed layer hold while they run. Raises AlreadyRunning."""
    with ExitStack() as held:
        held.enter_context(lock_folder(settings.master_path))
        for query in _QUERIES:
            held.enter_context(lock_folder(settings.checkpoint(query)))
        yield


def recover(session: Session, settings: Settings) -> RecoveryReport:
    """Find what was lost and write it again; nothing is changed where nothing was.

    Raises TallyError when there is no master dataset, StackError when something else writes.
    """
    if not settings.master_path.is_dir():
        raise TallyError(
            f"no master dataset in {settings.master_path}: everything else follows from it;"
            " restore a backup"
        )
    master = MasterTable.open(settings.master_path)
    topics = find_other_logs(settings, master.extent)
    has_lost_tables = bool(master.extent.until) and not _has_positions(session)
    lost = [f"topic {topic}" for topic in topics] + ["Cassandra"] * has_lost_tables
    if not lost:
        return RecoveryReport(lost)
    report = RecoveryReport(lost)
    # Gaps come first: the logs go on behind them.
    if has_lost_tables:
        report = replace(report, decisions=_restore_decisions(session, settings))
    if topics:
        report = _continue(session, settings, master, topics, report)
        report = _continue_raw(settings, report)
    position = skip_gaps(master.extent.until, read_gaps(session))
    if has_lost_tables:
        rebuild_links(session, settings, master.extent)
    days = rebuild_registers(session, settings, position)
    _set_checkpoints_aside(settings)
    return replace(report, days=days)


def _has_positions(session: Session) -> bool:
    return session.execute("SELECT family FROM master_position LIMIT 1").one() is not None


def _restore_decisions(session: Session, settings: Settings) -> int:
    """Write the copied decisions, and let fencing tokens go on behind the last one."""
    count = 0
    for table in TABLES:
        # Baselines name generations, which are rebuilt first.
        if table.is_restored and table is not BASELINES:
            rows = read_copy(settings.control_copies_path, table)
            write_copied_rows(session, table, rows)
            count += len(rows)
    flips = read_copy(settings.control_copies_path, FLIPS)
    for family in FAMILIES:
        tokens = [flip["generation"] for flip in flips if flip["family"] == family]
        if tokens:
            PointerTable(session, family).raise_token(max(tokens) + _TOKENS_SINCE_COPY)
    return count


def _continue(
    session: Session,
    settings: Settings,
    master: MasterTable,
    topics: Sequence[str],
    report: RecoveryReport,
) -> RecoveryReport:
    """Let the topics' logs go on where the master and the other layers have read up to."""
    held = skip_gaps(master.extent.until, read_gaps(session))
    read = _read_positions(session)
    starts: dict[PartitionId, int] = {
        place: max(offset, read.get(place, 0))
        for place, offset in flatten_offsets(held).items()
        if place[0] in topics
    }
    lost = 0
    for place, start in starts.items():
        if (offset := held[place[0]][place[1]]) < start:
            # Rows of the speed layer have counted what the master will never get.
            store_gap(session, _lost_records(master.extent, place, (offset, start)))
            lost += start - offset
    continued = continue_logs(settings, starts)
    master.begin_logs(read_topic_ids(settings, topics), starts)
    for entry in continued:
        log.info("log goes on", **asdict(entry))
    resent = sum(entry.resent for entry in continued)
    return replace(report, logs=len(continued), resent=resent, lost_records=lost)


def _continue_raw(settings: Settings, report: RecoveryReport) -> RecoveryReport:
    """Let raw logs go on, too: canonical records and dead letters name raw ones by their offset."""
    topics, found = loader.topics(), read_raw_ends(settings)
    ends = {}
    for (family, number), end in found.items():
        ends[topics[family]["raw"], number] = end
    short = find_short_logs(settings, ends)
    continued = continue_logs(settings, short)
    if short:
        # What it reads twice are copies.
        move_positions(settings, NORMALISER_GROUP, short)
    resent = report.resent + sum(entry.resent for entry in continued)
    return replace(report, logs=report.logs + len(continued), resent=resent)


def _read_positions(session: Session) -> Mapping[PartitionId, int]:
    """How far any layer has read each canonical partition; a topic has its family's name."""
    read: dict[PartitionId, int] = {}
    for table in ("master_position", "speed_progress", "speed_epoch"):
        for row in session.execute(f"SELECT family, partition, until FROM {table}"):
            place = row.family, row.partition
            read[place] = max(row.until or 0, read.get(place, 0))
    return read


def _lost_records(extent: MasterExtent, place: PartitionId, span: tuple[int, int]) -> AcceptedGap:
    topic, partition = place
    last = extent.fingerprints.get(topic, {}).get(partition)
    first_arrival = from_millis(last.timestamp_ms) if last else _NEVER
    now = datetime.now(UTC)
    return AcceptedGap(topic, partition, *span, first_arrival, now, now, _REASON)


def _set_checkpoints_aside(settings: Settings) -> None:
    """Move the checkpoints away: the queries begin again, with a floor from the master."""
    for query in _QUERIES:
        folder = settings.checkpoint(query)
        if folder.exists():
            folder.rename(folder.with_name(f"{folder.name}-before-recovery-{int(time.time())}"))


def restore_baselines(session: Session, settings: Settings) -> int:
    """Fix the copied baselines again, on the rebuilt generations; return how many there are.

    A day whose definition has changed since is left out.
    """
    served = {name: PointerTable(session, name).current() for name in FAMILIES}
    rows = read_copy(settings.control_copies_path, BASELINES)
    repinned = [{**row, "days": repin_days(row["days"], served)} for row in rows]
    write_copied_rows(session, BASELINES, repinned)
    return len(rows)


if __name__ == "__main__":
    sys.exit(main())
