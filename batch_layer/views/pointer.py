"""Which generation serves each day: fencing tokens and the one conditional batch that publishes a run.

All rows of a family lie in one Cassandra partition, written by lightweight transactions only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from cassandra import ConsistencyLevel, OperationTimedOut, WriteTimeout
from cassandra.cluster import Session
from cassandra.query import BatchStatement, BatchType, SimpleStatement
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random

from tally.errors import FlipRefused

Offsets = Mapping[int, int]
_COLUMNS = "family, day, generation, epoch, table_version, covered_until, flipped_at, pinned, through"


class _Raced(Exception):
    """Raised when another run changed the partition between the read and the write; read again."""


@dataclass(frozen=True)
class Generation:
    """What a run publishes: its token (also the generation's name), the pinned version and offsets, what that covers."""

    family: str
    token: int
    epoch: int
    table_version: int
    pinned: Offsets
    through: Mapping[int, datetime]
    covered_until: datetime


@dataclass(frozen=True)
class Pointer:
    """The row of one day."""

    day: date
    generation: int
    pinned: Offsets


class PointerTable:
    """batch_pointer of one family."""

    def __init__(self, session: Session, family: str) -> None:
        self._session = session
        self._family = family

    @retry(retry=retry_if_exception_type(_Raced), stop=stop_after_attempt(20), wait=wait_random(0, 0.2), reraise=True)
    def take_token(self) -> int:
        """A fencing token above every one handed out before. Taken before the version is pinned."""
        last = self._static("last_token")
        token = (last or 0) + 1
        if not self._applied("UPDATE batch_pointer SET last_token = %s WHERE family = %s IF last_token = %s", [token, self._family, last]):
            raise _Raced
        return token

    def current(self) -> dict[date, Pointer]:
        """The published days, read with SERIAL consistency."""
        rows = self._rows("SELECT day, generation, pinned FROM batch_pointer WHERE family = %s")
        return {row.day.date(): Pointer(row.day.date(), row.generation, dict(row.pinned or {})) for row in rows if row.day is not None}

    @retry(retry=retry_if_exception_type(_Raced), stop=stop_after_attempt(20), wait=wait_random(0, 0.2), reraise=True)
    def flip(self, days: Sequence[date], generation: Generation) -> None:
        """Publish the generation for all its days at once.

        Raises FlipRefused when a run with a later token has flipped, or a day would go back to earlier offsets.
        """
        flipped, current = self._static("flip_token"), self.current()
        if flipped == generation.token:
            return
        _refuse(flipped, [current[day] for day in days if day in current], generation)
        try:
            done = self._flip(days, generation, flipped)
        except (OperationTimedOut, WriteTimeout):
            # It may or may not have been applied: one's own token tells, read with SERIAL consistency.
            done = self._static("flip_token") == generation.token
        if not done:
            raise _Raced
        self.record_history()

    def record_history(self) -> None:
        """Copy the published rows into the history; again changes nothing, so that a crash after a flip is made good by the next run."""
        columns = _COLUMNS.split(", ")
        insert = self._session.prepare(f"INSERT INTO batch_pointer_history ({_COLUMNS}) VALUES ({', '.join('?' * len(columns))})")
        insert.is_idempotent = True
        for row in self._rows(f"SELECT {_COLUMNS} FROM batch_pointer WHERE family = %s"):
            if row.day is not None:
                self._session.execute(insert, [getattr(row, name) for name in columns])

    def _flip(self, days: Sequence[date], generation: Generation, flipped: int | None) -> bool:
        batch = BatchStatement(batch_type=BatchType.UNLOGGED, serial_consistency_level=ConsistencyLevel.SERIAL)
        batch.add(
            SimpleStatement("UPDATE batch_pointer SET flip_token = %s WHERE family = %s IF flip_token = %s"),
            [generation.token, self._family, flipped],
        )
        insert = self._session.prepare(f"INSERT INTO batch_pointer ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")
        now = datetime.now(UTC)
        for day in days:
            values = (generation.table_version, generation.covered_until, now, dict(generation.pinned), dict(generation.through))
            batch.add(insert, [self._family, day, generation.token, generation.epoch, *values])
        return bool(self._session.execute(batch).one()[0])

    def _applied(self, statement: str, values: list[Any]) -> bool:
        return bool(self._session.execute(SimpleStatement(statement, serial_consistency_level=ConsistencyLevel.SERIAL), values).one()[0])

    def _static(self, column: str) -> int | None:
        rows = self._rows(f"SELECT {column} AS token_value FROM batch_pointer WHERE family = %s LIMIT 1")
        return rows[0].token_value if rows else None

    def _rows(self, statement: str) -> list[Any]:
        return list(self._session.execute(SimpleStatement(statement, consistency_level=ConsistencyLevel.SERIAL), [self._family]))


def _refuse(flipped: int | None, days: Sequence[Pointer], generation: Generation) -> None:
    if flipped is not None and flipped > generation.token:
        raise FlipRefused(f"rebuild {generation.token} of {generation.family}: run {flipped} has published since; its numbers stand")
    for pointer in days:
        behind = {number: offset for number, offset in pointer.pinned.items() if generation.pinned.get(number, 0) < offset}
        if behind:
            raise FlipRefused(
                f"rebuild {generation.token} of {generation.family}: {pointer.day} is served up to offsets {behind}, "
                f"this run pinned {dict(generation.pinned)}; run it again"
            )
