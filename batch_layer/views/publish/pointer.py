"""The pointer table: which generation serves each day.

It has the fencing tokens and the one conditional batch that publishes a run. All rows of a family
lie in one Cassandra partition, written by lightweight transactions only.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from cassandra import ConsistencyLevel, OperationTimedOut, WriteFailure, WriteTimeout
from cassandra.cluster import Session
from cassandra.protocol import ErrorMessage
from cassandra.query import BatchStatement, BatchType, SimpleStatement, Statement
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random

from batch_layer.views.compute.scope import Claim
from runtime.cassandra.writes import write_rows
from runtime.kafka.offsets import Offsets, find_unread
from tally.errors import PublicationConflict, PublicationRefused
from tally.families.epochs import Epochs
from tally.families.generation import GENERATION_COLUMNS, Generation, parse_generation

# Error code of a server for a lightweight transaction that it could not complete; the driver has
# no class for it.
_CAS_WRITE_UNKNOWN = 0x1700
# The order is that of _row_values().
_COLUMNS = f"family, {GENERATION_COLUMNS}"
_PLACEHOLDERS = ", ".join("?" * len(_COLUMNS.split(", ")))
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
    which more is covered, by the same rows.
    """

    family: str
    token: int
    epochs: Epochs
    table_version: int
    pinned: Offsets
    flipped_at: datetime
    kept: Mapping[date, int] = field(default_factory=dict)


class PointerTable:
    """The rows of batch_pointer of one family."""

    def __init__(self, session: Session, family: str) -> None:
        self._session, self.family = session, family

    @_retry_conflicts
    def take_token(self) -> int:
        """Take a fencing token above every earlier one, before the version is pinned.

        Raises PublicationConflict when other runs take theirs at each of 20 attempts.
        """
        last = self._static("last_token")
        token = (last or 0) + 1
        update = SimpleStatement(
            "UPDATE batch_pointer SET last_token = %s WHERE family = %s IF last_token = %s"
        )
        # A token taken by an attempt of unknown outcome is skipped.
        if not execute_transaction(self._session, update, [token, self.family, last]):
            raise PublicationConflict(
                f"rebuild of {self.family}: no token in 20 attempts, others take theirs;"
                " run it again"
            )
        return token

    def current(self) -> dict[date, Generation]:
        """The generation that serves each UTC day, read with SERIAL consistency."""
        generations = (parse_generation(row[1:]) for row in self._read_published())
        return {generation.day: generation for generation in generations}

    @_retry_conflicts
    def flip(self, claims: Mapping[date, Claim], generation: RebuildRun) -> None:
        """Publish the generation for all the days of the claims at once.

        Raises PublicationRefused when a run with a later token has flipped, or a day would go back
        to earlier offsets or an earlier epoch.
        """
        flipped = self._static("flip_token")
        # After an attempt of unknown outcome (a time-out) the run's own token, read with SERIAL
        # consistency, shows that it was applied.
        if flipped != generation.token:
            # This flip replaces rows whose own run may have died before it wrote their history.
            self.record_history()
            served = self.current()
            replaced = [served[day] for day in claims if day in served]
            _refuse_unless_newer(flipped, replaced, generation)
            if not self._flip(claims, generation, flipped):
                raise PublicationConflict(
                    f"rebuild {generation.token} of {self.family}:"
                    " not published in 20 attempts; run it again"
                )
        # This run's own rows, not the current ones: another run may have flipped since.
        rows = [_row_values(generation, day, claim) for day, claim in claims.items()]
        self._insert_history(rows, generation.token)

    def record_history(self) -> None:
        """Copy the published rows into the history if the last flip's run died before it had."""
        flipped, recorded = self._static("flip_token"), self._static("recorded_token")
        if flipped is not None and flipped != recorded:
            self._insert_history(self._read_published(), flipped)

    def has_flipped(self, generation: int, day: date) -> bool | None:
        """Whether the generation, to which `day` belongs, was ever published.

        None while its run may still publish it.
        """
        # The flip token is read first: once a later token has flipped this one cannot, and every
        # flip writes the rows that it replaces into the history.
        flipped = self._static("flip_token") or 0
        if flipped <= generation:
            return flipped == generation or None
        history = self._session.prepare(
            "SELECT generation FROM batch_pointer_history"
            " WHERE family = ? AND day = ? AND generation = ?"
        )
        entry = self._session.execute(history, [self.family, day, generation]).one()
        return entry is not None

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

    def _flip(
        self, claims: Mapping[date, Claim], generation: RebuildRun, flipped: int | None
    ) -> bool:
        # All rows lie in one partition, so the one condition decides for every row: readers see
        # all days or none.
        batch = BatchStatement(batch_type=BatchType.UNLOGGED)
        # The condition is the token read before: a run that has flipped since has changed it, and
        # this one reads again.
        update = "UPDATE batch_pointer SET flip_token = %s WHERE family = %s IF flip_token = %s"
        batch.add(SimpleStatement(update), [generation.token, self.family, flipped])
        insert = self._session.prepare(
            f"INSERT INTO batch_pointer ({_COLUMNS}) VALUES ({_PLACEHOLDERS})"
        )
        for day, claim in claims.items():
            batch.add(insert, _row_values(generation, day, claim))
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


def _refuse_unless_newer(
    flipped: int | None, days: Sequence[Generation], generation: RebuildRun
) -> None:
    run, pinned = f"rebuild {generation.token} of {generation.family}", generation.pinned
    if flipped is not None and flipped > generation.token:
        raise PublicationRefused(f"{run}: run {flipped} has published since; its numbers stand")
    for pointer in days:
        # A run of older code, retried by its scheduler, has a new token and newer offsets.
        if pointer.epoch > (epoch := generation.epochs.for_day(pointer.day)):
            raise PublicationRefused(
                f"{run}: {pointer.day} is served by definition epoch {pointer.epoch},"
                f" this run computes epoch {epoch};"
                " run the newer code, with the newer stores file"
            )
        if not pointer.is_within(pinned):
            behind = {
                number: pointer.pinned[number] for number in find_unread(pointer.pinned, pinned)
            }
            raise PublicationRefused(
                f"{run}: {pointer.day} is served up to offsets {behind},"
                f" this run pinned {dict(pinned)}; run it again"
            )
