"""`tally restore`: brings a backup into an empty home, then recovers everything else from it."""

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from cassandra.cluster import Session

from alerting.rules.topic import ARRIVED_HEADER
from alerting.rules.topic import TOPIC as RULES
from ops.backup.contents import (
    ALERT_TABLES,
    CONTROL,
    HOME,
    HOME_FILES,
    MASTER,
    TABLES,
    AlertTable,
    Manifest,
    read_manifest,
    read_stored_records,
    topic_file,
)
from runtime.cassandra.writes import write_rows
from runtime.connect import kafka_consumer, kafka_producer
from runtime.kafka.producer import BlockingProducer
from runtime.kafka.topics import read_topic_bounds
from runtime.process.output import print_note
from runtime.registry.sources import FAMILIES
from tally.config.settings import Settings
from tally.errors import TallyError

_SECONDS = 60.0
# Of the state of an alert that an erasure has emptied no write time is left; it was this one.
_ERASED = 3


def restore_files(settings: Settings, folder: Path, keys: Path | None) -> Manifest:
    """Copy the backup's files into the home, before any service runs.

    Raises TallyError when the backup is not whole, or the home has a master dataset.
    """
    manifest = read_manifest(folder)
    if settings.master_path.exists():
        raise TallyError(
            f"{settings.master_path}: there is a master dataset; restore into an empty TALLY_HOME"
        )
    settings.control_copies_path.mkdir(parents=True, exist_ok=True)
    shutil.copytree(folder / CONTROL, settings.control_copies_path, dirs_exist_ok=True)
    _copy_home(folder / HOME, settings.home, HOME_FILES)
    if keys is not None:
        _copy_home(keys, settings.home, ("secrets/dead-letters.key", "webhook-secrets.json"))
    # Last, so that a restore which broke off can be done again.
    arriving = settings.master_path.with_name("master.arriving")
    shutil.rmtree(arriving, ignore_errors=True)
    shutil.copytree(folder / MASTER, arriving)
    arriving.rename(settings.master_path)
    return manifest


def _copy_home(source: Path, home: Path, names: Iterable[str]) -> None:
    for name in names:
        if (source / name).is_file():
            target = home / name
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copy2(source / name, target)


def restore_records(settings: Settings, session: Session, folder: Path, manifest: Manifest) -> None:
    """Send the kept and the waiting raw records, and write the rows of alerts.

    Raises TallyError when a topic has records already.
    """
    kept = [topic for topic in manifest.records if topic not in FAMILIES]
    _refuse_records(settings, kept)
    for topic in kept:
        _send(settings, topic, topic_file(folder, topic))
    for table in ALERT_TABLES:
        _write_rows(session, table, folder / TABLES / f"{table.name}.jsonl")


def restore_tails(settings: Settings, folder: Path, manifest: Manifest) -> None:
    """Send the canonical records that the master lacks, once its logs go on behind it."""
    for topic in FAMILIES:
        if topic in manifest.records:
            _send(settings, topic, topic_file(folder, topic))


def _refuse_records(settings: Settings, topics: Iterable[str]) -> None:
    with kafka_consumer(settings, "restore") as consumer:
        for topic in topics:
            bounds = read_topic_bounds(consumer, topic, _SECONDS)
            if any(at.end for at in bounds.values()):
                raise TallyError(f"topic {topic} has records: restore into an empty Kafka")


def _send(settings: Settings, topic: str, file: Path) -> None:
    sender = BlockingProducer(kafka_producer(settings), _SECONDS)
    count = 0
    for record in read_stored_records(file):
        headers = [(header["name"], header["value"]) for header in record["headers"]]
        if topic == RULES and ARRIVED_HEADER not in dict(headers):
            headers.append((ARRIVED_HEADER, str(record["timestamp_ms"]).encode()))
        sender.send(topic, record["value"], record["key"], record["partition"], headers)
        count += 1
    sender.flush(f"topic {topic}", "look into the broker's log, then restore into an empty home")
    print_note(f"topic {topic}: {count:,} records")


def _write_rows(session: Session, table: AlertTable, file: Path) -> None:
    text = f"INSERT INTO {table.name} JSON ? USING TIMESTAMP ?"
    with file.open(encoding="utf-8") as lines:
        rows: Iterable[Mapping[str, object]] = map(json.loads, lines)
        write_rows(session, text, map(_to_values, rows))


def _to_values(row: Mapping[str, object]) -> tuple[str, object]:
    written = row.get("written")
    columns = {name: value for name, value in row.items() if name != "written"}
    return json.dumps(columns), _ERASED if written is None else written
