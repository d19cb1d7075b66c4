"""Copies, beside the master, of what people and past runs decided and only Cassandra holds.

The master has every record; whether a loss was accepted, a past was declared whole or a night's
baselines were fixed is in no record. After a loss of Cassandra `tally recover` brings these back.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cassandra.cluster import Session
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from runtime.cassandra.writes import write_rows
from runtime.process.files import lock_folder, write_atomically
from tally.errors import AlreadyRunning

_LOCK_SECONDS = 30.0
# A row as Cassandra writes and reads it as JSON.
JsonRow = Mapping[str, Any]


@dataclass(frozen=True)
class CopiedTable:
    """A table to copy: its key, and the further columns that a person or a run has decided.

    decided: the column without which a row holds no decision; is_restored: whether a lost Cassandra
    gets the rows back.
    """

    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    decided: str
    is_restored: bool = True


GAPS = CopiedTable(
    "gap",
    ("topic", "partition", "from_offset"),
    ("until_offset", "first_arrival", "last_arrival", "noted_at", "reason"),
    "noted_at",
)
BACKFILLS = CopiedTable(
    "backfill", ("family", "first_day", "last_day"), ("declared_at", "source"), "declared_at"
)
# Without its counts: a rebuild finds them again.
ACCEPTED_CONFLICTS = CopiedTable(
    "till_finding",
    ("family", "day", "store_id", "till_id"),
    ("accepted", "accepted_at", "reason"),
    "accepted_at",
)
BASELINES = CopiedTable("baseline_snapshot", ("series", "first_day"), ("made_at", "days"), "days")
# What it names is rebuilt under later tokens: it goes on to say what served when.
FLIPS = CopiedTable(
    "batch_pointer_history",
    ("family", "day", "generation", "flipped_at"),
    ("epoch", "table_version", "covered_from", "covered_until", "pinned", "through"),
    "flipped_at",
    is_restored=False,
)
TABLES = (GAPS, BACKFILLS, ACCEPTED_CONFLICTS, BASELINES, FLIPS)


def copy_table(session: Session, folder: Path, table: CopiedTable) -> int:
    """Bring the table's copy up to date; return how many rows it has.

    Rows that Cassandra no longer has stay in the copy: it may be the one that has lost them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # Another process copies for a moment.
    waiting = Retrying(
        retry=retry_if_exception_type(AlreadyRunning),
        stop=stop_after_delay(_LOCK_SECONDS),
        wait=wait_fixed(0.1),
        reraise=True,
    )
    return waiting(_merge_copy, session, folder, table)


def _merge_copy(session: Session, folder: Path, table: CopiedTable) -> int:
    with lock_folder(folder):
        rows = {_key(table, row): row for row in read_copy(folder, table)}
        rows |= {_key(table, row): row for row in _read_rows(session, table)}
        lines = (json.dumps(rows[key], sort_keys=True) for key in sorted(rows))
        text = "".join(f"{line}\n" for line in lines)
        write_atomically(_file(folder, table), text, is_durable=True)
    return len(rows)


def read_copy(folder: Path, table: CopiedTable) -> list[JsonRow]:
    """The rows of the table's copy; empty if it has none."""
    file = _file(folder, table)
    lines = file.read_text("utf-8").splitlines() if file.is_file() else []
    return [json.loads(line) for line in lines]


def write_copied_rows(session: Session, table: CopiedTable, rows: Iterable[JsonRow]) -> None:
    """Write the rows to Cassandra; columns that the copy does not have stay as they are."""
    text = f"INSERT INTO {table.name} JSON ? DEFAULT UNSET"
    write_rows(session, text, ([json.dumps(row)] for row in rows))


def _read_rows(session: Session, table: CopiedTable) -> list[JsonRow]:
    columns = ", ".join((*table.key, *table.columns))
    found = session.execute(f"SELECT JSON {columns} FROM {table.name}")
    rows = (json.loads(row.json) for row in found)
    return [row for row in rows if row[table.decided] is not None]


def _key(table: CopiedTable, row: JsonRow) -> tuple[str, ...]:
    return tuple(json.dumps(row[name]) for name in table.key)


def _file(folder: Path, table: CopiedTable) -> Path:
    return folder / f"{table.name}.jsonl"
