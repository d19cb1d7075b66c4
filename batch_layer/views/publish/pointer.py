"""The pointer table: which generation serves each day.

It has the fencing tokens and the one conditional batch that publishes a run. All rows of a family
lie in one Cassandra partition, written by lightweight transactions only.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, TypeAlias

from cassandra import ConsistencyLevel, OperationTimedOut, WriteFailure, WriteTimeout
from cassandra.cluster import Session
from cassandra.protocol import ErrorMessage
from cassandra.query import BatchStatement, BatchType, SimpleStatement, Statement
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random

from batch_layer.views.compute.scope import Claim
from runtime.cassandra.writes import prepare_idempotent, read_many, write_rows
from runtime.kafka.offsets import Offsets
from tally.errors import PublicationConflict, PublicationRefused, Superseded
from tally.families.epochs import Epochs
from tally.families.generation import GENERATION_COLUMNS, Generation, parse_generation
from tally.families.versions import VersionChoice

# Error code of a server for a lightweight transaction that it could not complete; the driver has
# no class for it.
_CAS_WRITE_UNKNOWN = 0x1700
# The order is that of _row_values().
_COLUMNS = f"family, {GENERATION_COLUMNS}"
_PLACEHOLDERS = ", ".join("?" * len(_COLUMNS.split(", ")))
Claims: TypeAlias = Mapping[date, Claim]
_retry_conflicts = retry(
    retry=retry_if_exception_type(PublicationConflict),
    stop=stop_after_attempt(20),
    wait=wait_random(0, 0.2),
    reraise=True,
)


@dataclass(frozen=True)
class RebuildRun:
    """The metadata that a run publishes; its token is also the generation's name.

    `flipped_at`: the instant of the flip by the brokers' clock; `kept`: the generation of days of
    which more is covered, by the same rows; `replaced`: what served each day when its rows were
    compared with those to write.
    """

    family: str
    token: int
    epochs: Epochs
    table_version: int
    pinned: Offsets
    flipped_at: datetime
    kept: Mapping[date, int] = field(default_factory=dict)
    replaced: Mapping[date, Generation] = field(default_factory=dict)


class PointerTable:
    """The rows of batch_pointer of one family."""

    def __init__(self, session: Session, family: str) -> None:
        self._session, self.family = session, family

    def _move_token(self, last: int | None, token: int) -> bool:
        update = SimpleStatement(
            "UPDATE batch_pointer SET last_token = %s WHERE family = %s IF last_token = %s"
        )
        return execute_transaction(self._session, update, [token, self.family, last])

    @_retry_conflicts
    def take_token(self) -> int:
        """Take a fencing token above every earlier one, before the version is pinned.

        Raises PublicationConflict when other runs take theirs at each of 20 attempts.
        """
        last = self._static("last_token")
        token = (last or 0) + 1
        # A token taken by an attempt of unknown outcome is skipped.
        if not self._move_token(last, token):
            raise PublicationConflict(
                f"rebuild of {self.family}: no token in 20 attempts, others take theirs;"
                " run it again"
            )
        return token

    def raise_token(self, least: int) -> None:
        """Let the next token lie above `least`: of a table that was lost others are known."""
        last = self._static("last_token")
        if (last or 0) < least:
            self._move_token(last, least)

    def current(self) -> dict[date, Generation]:
        """The generation that serves each UTC day, read with SERIAL consistency."""
        generations = (parse_generation(row[1:]) for row in self._read_published())
        return {generation.day: generation for generation in generations}

    @_retry_conflicts
    def flip(self, claims: Claims, run: RebuildRun) -> list[date]:
        """Publish the run for the days of the claims at once; return the days left out, ascending.

        Left out are days that another run has published since their rows were compared. Raises
        Superseded when no day is left, PublicationRefused when one is served by a later definition.
        """
        flipped = self._static("flip_token")
        # This flip replaces rows whose own run may have died before it wrote their history.
        self.record_history()
        served = self.current()
        # After an attempt of unknown outcome (a time-out) the run's own rows show that it was
        # applied. Others that have flipped since have written them into the history before.
        taken = {day for day in claims if day in served and _is_of_run(served[day], run)}
        taken |= self.published_days(run.token, claims)
        if not taken:
            _refuse_earlier_epoch([served[day] for day in claims if day in served], run)
            taken = {day for day in claims if not is_ahead(served.get(day), run)}
            if not taken:
                raise Superseded(
                    f"rebuild {run.token} of {self.family}: other runs have published all of its"
                    " days since; their numbers stand"
                )
            if not self._flip({day: claims[day] for day in taken}, run, flipped):
                raise PublicationConflict(
                    f"rebuild {run.token} of {self.family}: not published in 20 attempts;"
                    " run it again"
                )
        # This run's own rows, not the current ones: another run may have flipped since.
        rows = [_row_values(run, day, claims[day]) for day in taken]
        self._insert_history(rows, run.token)
        return sorted(claims.keys() - taken)

    def record_history(self) -> None:
        """Copy the published rows into the history if the last flip's run died before it had."""
        flipped, recorded = self._static("flip_token"), self._static("recorded_token")
        if flipped is not None and flipped != recorded:
            self._insert_history(self._read_published(), flipped)

    def choices(
        self, days: Iterable[date], current: Mapping[date, Generation]
    ) -> dict[date, VersionChoice]:
        """Of each of the days that a generation serves, which versions of rows it has."""
        text = "SELECT generation FROM batch_pointer_history WHERE family = ? AND day = ?"
        served = [day for day in days if day in current]
        statement = prepare_idempotent(self._session, text)
        answers = read_many(self._session, statement, [(self.family, day) for day in served])
        # Flips write the history of all before them, and that of the last one may be missing.
        return {
            day: VersionChoice(
                current[day].generation,
                {current[day].generation, *(row.generation for row in rows)},
            )
            for day, rows in zip(served, answers, strict=True)
        }

    def published_days(self, generation: int, days: Collection[date]) -> set[date]:
        """The days among these of which the history has the generation.

        It has all flips but the last one, whose run may have died: record_history().
        """
        text = (
            "SELECT day FROM batch_pointer_history"
            " WHERE family = ? AND day = ? AND generation = ? LIMIT 1"
        )
        statement = prepare_idempotent(self._session, text)
        keys = [(self.family, day, generation) for day in days]
        answers = read_many(self._session, statement, keys)
        return {row.day.date() for rows in answers for row in rows}

    def _read_published(self) -> list[Any]:
        """The rows of the served days."""
        text = f"SELECT {_COLUMNS} FROM batch_pointer WHERE family = %s"
        # Tokens lie in the partition's static columns, which appear as a row without a day as long
        # as there is no other row.
        rows = read_serially(self._session, text, self.family)
        return [row for row in rows if row.day is not None]

    def _insert_history(self, rows: Iterable[Sequence[Any]], flipped: int) -> None:
        """Write the rows that the history may lack; note that it is complete up to the flip."""
        # The history is a separate table: a plain write beside lightweight transactions on one
        # partition can be lost.
        text = f"INSERT INTO batch_pointer_history ({_COLUMNS}) VALUES ({_PLACEHOLDERS})"
        write_rows(self._session, text, rows)
        # Unless another run has flipped since. Without an answer the rows are written once more.
        recorded = SimpleStatement(
            "UPDATE batch_pointer SET recorded_token = %s WHERE family = %s IF flip_token = %s"
        )
        execute_transaction(self._session, recorded, [flipped, self.family, flipped])

    def _flip(self, claims: Claims, run: RebuildRun, flipped: int | None) -> bool:
        # All rows lie in one partition, so the one condition decides for every row: readers see
        # all days or none.
        batch = BatchStatement(batch_type=BatchType.UNLOGGED)
        # The condition is the token read before: a run that has flipped since has changed it, and
        # this one reads again.
        update = "UPDATE batch_pointer SET flip_token = %s WHERE family = %s IF flip_token = %s"
        batch.add(SimpleStatement(update), [run.token, self.family, flipped])
        insert = self._session.prepare(
            f"INSERT INTO batch_pointer ({_COLUMNS}) VALUES ({_PLACEHOLDERS})"
        )
        for day, claim in claims.items():
            batch.add(insert, _row_values(run, day, claim))
        return execute_transaction(self._session, batch)

    def _static(self, column: str) -> int | None:
        text = f"SELECT {column} AS token_value FROM batch_pointer WHERE family = %s LIMIT 1"
        rows = read_serially(self._session, text, self.family)
        return rows[0].token_value if rows else None


def read_serially(session: Session, text: str, *values: Any) -> list[Any]:
    """All rows of the query, read with SERIAL consistency."""
    # A SERIAL read first completes a transaction that was left half done.
    query = SimpleStatement(text, consistency_level=ConsistencyLevel.SERIAL)
    return list(session.execute(query, values))


def execute_transaction(
    session: Session, statement: Statement, values: list[Any] | None = None
) -> bool:
    """Execute the lightweight transaction; return whether it was applied for certain."""
    statement.serial_consistency_level = ConsistencyLevel.SERIAL
    try:
        return bool(session.execute(statement, values).one()[0])
    # A lightweight transaction without an answer may be applied already, or later, or never.
    except (OperationTimedOut, WriteTimeout, WriteFailure):
        return False
    except ErrorMessage as error:
        if error.code != _CAS_WRITE_UNKNOWN:
            raise
        return False


def _row_values(run: RebuildRun, day: date, claim: Claim) -> tuple[Any, ...]:
    """The values of a pointer row in the order of the columns."""
    generation = run.kept.get(day, run.token)
    names = (run.family, day, generation, run.epochs.for_day(day))
    pins = (run.table_version, run.flipped_at, dict(run.pinned), dict(claim.through))
    return (*names, claim.covered_from, claim.covered_until, *pins)


def is_ahead(served: Generation | None, run: RebuildRun) -> bool:
    """Whether the run cannot publish the day that this generation serves.

    Its rows were compared with those of another generation, or the day would go back to earlier
    offsets.
    """
    if served is None:
        return False
    replaced = run.replaced.get(served.day)
    if replaced is None or replaced.generation != served.generation:
        return True
    # A flip that only covers more leaves the generation.
    if replaced.flipped_at != served.flipped_at:
        return True
    return served.generation > run.token or not served.is_within(run.pinned)


def _is_of_run(served: Generation, run: RebuildRun) -> bool:
    number = run.kept.get(served.day, run.token)
    return (served.generation, served.flipped_at) == (number, run.flipped_at)


def _refuse_earlier_epoch(days: Sequence[Generation], run: RebuildRun) -> None:
    for pointer in days:
        # A run of older code, retried by its scheduler, has a new token and newer offsets.
        if pointer.epoch > (epoch := run.epochs.for_day(pointer.day)):
            raise PublicationRefused(
                f"rebuild {run.token} of {run.family}: {pointer.day} is served by definition epoch"
                f" {pointer.epoch}, this run computes epoch {epoch}; run the newer code, with the"
                " newer stores file"
            )
