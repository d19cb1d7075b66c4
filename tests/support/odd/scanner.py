"""Looks for planted texts wherever Tally keeps something: topics, tables, files.

Says how much it has read.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
from cassandra.cluster import Session
from confluent_kafka import Message

from runtime.connect import kafka_admin
from runtime.kafka.reader import read_to_end
from tally.config.settings import Settings

CHUNK = 1 << 24


@dataclass
class Scan:
    """Where which planted value was found, and what was read: records, rows, files, bytes."""

    planted: Mapping[str, str]
    found: dict[str, set[str]] = field(default_factory=dict)
    records: int = 0
    rows: int = 0
    files: int = 0
    size: int = 0

    def look(self, content: bytes, place: str) -> None:
        """Note each planted value that the content holds, whatever its case."""
        self.size += len(content)
        lower = content.lower()
        for name, value in self.planted.items():
            if value.lower().encode() in lower:
                self.found.setdefault(name, set()).add(place)

    def places(self) -> set[str]:
        """Every place where anything was found."""
        return set().union(*self.found.values())


def scan_topics(scan: Scan, settings: Settings, topics: Collection[str] = ()) -> None:
    """Keys, values and headers of every record of the topics (none named: all), aborted ones
    too."""
    chosen = topics or kafka_admin(settings).list_topics(timeout=10).topics
    for message in read_to_end(settings, chosen, {"isolation.level": "read_uncommitted"}):
        scan.records += 1
        scan.look(_whole(message), f"topic {message.topic()}")


def _whole(message: Message) -> bytes:
    headers = message.headers() or []
    pieces = [message.key(), message.value(), *(part for header in headers for part in header)]
    return b"\n".join(
        piece if isinstance(piece, bytes) else str(piece).encode() for piece in pieces
    )


def scan_tables(scan: Scan, session: Session, keyspace: str) -> None:
    """Every column of every row of the keyspace."""
    tables = session.execute(
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s", [keyspace]
    )
    for table in sorted(row.table_name for row in tables):
        for row in session.execute(f'SELECT * FROM {keyspace}."{table}"'):
            scan.rows += 1
            scan.look(repr(tuple(row)).encode(), f"table {table}")


def scan_files(scan: Scan, home: Path, but: Collection[str] = ()) -> None:
    """Every file below the folder, Parquet by its values too; left out: partitions on disk of
    the topics in `but`."""
    for path in sorted(home.rglob("*")):
        if not path.is_file() or any(
            part.rpartition("-")[0] in but for part in path.relative_to(home).parts
        ):
            continue
        scan.files += 1
        for content in _contents(path):
            scan.look(content, f"file {path.relative_to(home)}")


def _contents(path: Path) -> Iterator[bytes]:
    if path.suffix == ".parquet":
        yield json.dumps(pq.read_table(path).to_pylist(), default=str, ensure_ascii=False).encode()
    overlap = b""
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                yield overlap + chunk
                # A value may lie across two chunks.
                overlap = chunk[-256:]
    except FileNotFoundError:  # a running service has just removed it
        return
