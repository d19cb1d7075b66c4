"""What a backup's folder holds, and the records of topics in it as Parquet files.

manifest.json       when, and up to which positions
master/             the master dataset at one version
control/            copies of what people decided and only Cassandra holds
topics/*.parquet    kept records of topics; of raw and canonical ones what lies beyond the master
tables/*.jsonl      rows of alerts, which outlive their topic
home/               the stores file
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Message

from runtime.process.files import write_atomically
from tally.errors import TallyError

FORMAT = 1
MASTER, CONTROL, TOPICS, TABLES, HOME = "master", "control", "topics", "tables", "home"
# Kinds of topics whose records no other topic or table can bring back.
KEPT_KINDS = ("chronicle", "compacted", "durable", "letters", "alerts")
# Files of TALLY_HOME that the services read.
HOME_FILES = ("stores.yaml",)
_HEADER = pa.struct({"name": pa.string(), "value": pa.binary()})
_RECORDS = pa.schema(
    [
        ("partition", pa.int32()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(_HEADER)),
    ]
)
_RECORDS_AT_ONCE = 10_000


class AlertTable(NamedTuple):
    """A table of alerts: its columns, and one that has the write time of a row."""

    name: str
    columns: tuple[str, ...]
    timed: str


ALERT_TABLES = (
    AlertTable(
        "alerts_byday",
        (
            *("store_id", "day", "raised_at", "alert_id", "rule_id", "severity", "state"),
            *("edge", "late", "message"),
        ),
        "state",
    ),
    AlertTable("alert_life", ("alert_id", "told_id", "state", "message"), "message"),
    AlertTable("alerts_open", ("store_id", "alert_id", "message"), "message"),
)


@dataclass(frozen=True)
class Manifest:
    """What a backup says of itself.

    taken_at: RFC 3339; version: of the master dataset; records: count by topic; rows: by table.
    """

    format: int
    taken_at: str
    version: int
    records: Mapping[str, int]
    rows: Mapping[str, int]


def write_manifest(folder: Path, fields: Mapping[str, Any]) -> None:
    """Write the manifest: the last file of a backup, without which it is none."""
    write_atomically(folder / "manifest.json", json.dumps(fields, indent=2), is_durable=True)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a whole backup. Raises TallyError when there is none, or a later one."""
    file = folder / "manifest.json"
    if not file.is_file():
        raise TallyError(f"{folder}: no whole backup, manifest.json is missing")
    fields = json.loads(file.read_text("utf-8"))
    if fields["format"] != FORMAT:
        raise TallyError(
            f"{folder}: a backup of format {fields['format']}, this Tally reads {FORMAT}"
        )
    return Manifest(**fields)


def topic_file(folder: Path, topic: str) -> Path:
    """The file of a topic's records."""
    return folder / TOPICS / f"{topic}.parquet"


def write_records(file: Path, messages: Iterable[Message]) -> int:
    """Write the records in their order; return how many they are."""
    count, waiting = 0, list[dict[str, Any]]()
    file.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(file, _RECORDS, compression="zstd") as writer:
        for message in messages:
            waiting.append(_to_row(message))
            if len(waiting) == _RECORDS_AT_ONCE:
                writer.write_table(pa.Table.from_pylist(waiting, _RECORDS))
                count, waiting = count + len(waiting), []
        writer.write_table(pa.Table.from_pylist(waiting, _RECORDS))
    return count + len(waiting)


def _to_row(message: Message) -> dict[str, Any]:
    found = cast(list[tuple[str, bytes]], message.headers() or [])
    headers = [{"name": name, "value": value} for name, value in found]
    return {
        "partition": message.partition(),
        "timestamp_ms": message.timestamp()[1],
        "key": message.key(),
        "value": message.value(),
        "headers": headers,
    }


def read_stored_records(file: Path) -> Iterator[dict[str, Any]]:
    """The records of a topic's file in their order, with `_RECORDS`' columns."""
    with pq.ParquetFile(file) as opened:
        for batch in opened.iter_batches(_RECORDS_AT_ONCE):
            yield from batch.to_pylist()
