"""`tally backup`: copies what cannot be computed again, while everything runs.

What was acknowledged before it began is in it. The order is that of an event's way: first the raw
records that wait, then the canonical ones, then the master dataset. An event that moves on
meanwhile is in the backup twice, and counts once by its identity.
"""

import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from cassandra.cluster import Session
from confluent_kafka import Message
from deltalake import DeltaTable

from batch_layer.master.extent import load_extent
from ops.backup.contents import (
    ALERT_TABLES,
    CONTROL,
    FORMAT,
    HOME,
    HOME_FILES,
    KEPT_KINDS,
    MASTER,
    TABLES,
    Manifest,
    topic_file,
    write_manifest,
    write_records,
)
from runtime.connect import NORMALISER_GROUP, kafka_consumer
from runtime.kafka.offsets import Offsets
from runtime.kafka.reader import read_to_end, read_until
from runtime.kafka.topics import read_topic_bounds, read_topic_positions
from runtime.process.output import print_note
from runtime.records import control_copies
from runtime.registry.sources import FAMILIES
from schemas import loader
from tally.config.settings import Settings
from tally.errors import TallyError
from tally.time.instants import format_utc

_SECONDS = 60.0


def back_up(settings: Settings, session: Session, folder: Path, keys: Path | None) -> Manifest:
    """Write a backup into the folder; one that is there is brought up to date.

    keys: a folder apart for the keys that sign webhooks and letters. Devices' keys are never
    copied: their destruction is final. Raises TallyError when there is no master dataset.
    """
    if not DeltaTable.is_deltatable(str(settings.master_path)):
        raise TallyError(f"no master dataset in {settings.master_path}: nothing to back up")
    folder.mkdir(parents=True, exist_ok=True)
    # Until the new one is whole there is none.
    (folder / "manifest.json").unlink(missing_ok=True)
    taken_at = format_utc(datetime.now(UTC))
    records = _save_waiting_raw(settings, folder)
    ends = _read_canonical_ends(settings)
    version, until = _save_master(settings.master_path, folder / MASTER)
    records |= _save_canonical(settings, folder, until, ends)
    records |= _save_topics(settings, folder)
    rows = _save_tables(session, folder / TABLES)
    rows |= _save_control(session, settings, folder / CONTROL)
    _copy_files(settings.home, folder / HOME, HOME_FILES)
    if keys is not None:
        _copy_keys(settings, keys)
    manifest = Manifest(FORMAT, taken_at, version, records, rows)
    write_manifest(folder, asdict(manifest))
    return manifest


def _save_waiting_raw(settings: Settings, folder: Path) -> dict[str, int]:
    """Raw records that the normaliser has not taken yet."""
    saved = {}
    for topic in _topics_of(("raw",)):
        with kafka_consumer(settings, NORMALISER_GROUP) as consumer:
            positions = read_topic_positions(consumer, topic, _SECONDS)
        ends = _read_ends(settings, topic)
        saved[topic] = _save_tail(settings, topic_file(folder, topic), positions, ends)
    return saved


def _topics_of(kinds: Collection[str]) -> list[str]:
    topics = loader.topics()
    return [name for name, topic in topics.items() if topic["kind"] in kinds]


def _read_canonical_ends(settings: Settings) -> dict[str, dict[int, int]]:
    return {family.topic: _read_ends(settings, family.topic) for family in FAMILIES.values()}


def _read_ends(settings: Settings, topic: str) -> dict[int, int]:
    with kafka_consumer(settings, "backup") as consumer:
        bounds = read_topic_bounds(consumer, topic, _SECONDS)
    return {number: at.end for number, at in bounds.items()}


def _save_canonical(
    settings: Settings, folder: Path, until: Mapping[str, Offsets], ends: Mapping[str, Offsets]
) -> dict[str, int]:
    """Canonical records that the copied version of the master lacks."""
    saved = {}
    for topic, of_topic in ends.items():
        starts = until.get(topic, {})
        saved[topic] = _save_tail(settings, topic_file(folder, topic), starts, of_topic)
    return saved


def _save_tail(settings: Settings, file: Path, starts: Offsets, ends: Offsets) -> int:
    """The committed records of the file's topic from these offsets to these ends."""

    def read() -> Iterator[Message]:
        for number, end in ends.items():
            if (start := starts.get(number, 0)) < end:
                yield from read_until(settings, (file.stem, number), end, start)

    return write_records(file, read())


def _save_topics(settings: Settings, folder: Path) -> dict[str, int]:
    saved = {}
    for topic in _topics_of(KEPT_KINDS):
        saved[topic] = write_records(topic_file(folder, topic), read_to_end(settings, [topic]))
        print_note(f"topic {topic}: {saved[topic]:,} records")
    return saved


def _save_master(source: Path, target: Path) -> tuple[int, Mapping[str, Offsets]]:
    """Copy one version: its files, and a log that begins with its checkpoint."""
    table = DeltaTable(str(source))
    version, extent = table.version(), load_extent(table)
    names = {str(Path(path).relative_to(source)) for path in table.file_uris()}
    new = [name for name in sorted(names) if not (target / name).exists()]
    print_note(f"master dataset: version {version}, {len(new):,} of {len(names):,} files to copy")
    for name in new:
        _copy(source / name, target / name)
    table.create_checkpoint()
    shutil.rmtree(target / "_delta_log", ignore_errors=True)
    for file in (source / "_delta_log").glob(f"{version:020}.*"):
        _copy(file, target / "_delta_log" / file.name)
    for file in target.rglob("*.parquet"):
        name = str(file.relative_to(target))
        if name not in names and not name.startswith("_delta_log"):
            file.unlink()
    return version, extent.until


def _copy(source: Path, target: Path) -> None:
    """Copy a file so that it is there whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    arriving = target.with_name(f"{target.name}.arriving")
    shutil.copy2(source, arriving)
    arriving.rename(target)


def _save_tables(session: Session, folder: Path) -> dict[str, int]:
    folder.mkdir(parents=True, exist_ok=True)
    saved = {}
    for table in ALERT_TABLES:
        columns = ", ".join((*table.columns, f"writetime({table.timed}) AS written"))
        rows = session.execute(f"SELECT JSON {columns} FROM {table.name}")
        saved[table.name] = 0
        with (folder / f"{table.name}.jsonl").open("w", encoding="utf-8") as file:
            for row in rows:
                file.write(f"{row.json}\n")
                saved[table.name] += 1
    return saved


def _save_control(session: Session, settings: Settings, folder: Path) -> dict[str, int]:
    own = settings.control_copies_path
    copy = partial(control_copies.copy_table, session, own)
    saved = {table.name: copy(table) for table in control_copies.TABLES}
    _copy_files(own, folder, [f"{name}.jsonl" for name in saved])
    return saved


def _copy_files(source: Path, target: Path, names: Any) -> None:
    for name in names:
        if (source / name).is_file():
            _copy(source / name, target / name)


def _copy_keys(settings: Settings, folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _copy_files(settings.home, folder, ("secrets/dead-letters.key", "webhook-secrets.json"))


def describe(manifest: Manifest) -> str:
    """One line for people."""
    records = sum(manifest.records.values())
    rows = sum(manifest.rows.values())
    return (
        f"backup of {manifest.taken_at}: master version {manifest.version},"
        f" {records:,} records of topics, {rows:,} rows"
    )


def print_manifest(manifest: Manifest, *, is_json: bool) -> None:
    """Print the manifest as one JSON object, or one line."""
    print(json.dumps(asdict(manifest)) if is_json else describe(manifest))
