"""Statements written to Cassandra until each is acknowledged, or the micro-batch fails."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias, TypeVar

from cassandra import OperationTimedOut, Timeout, Unavailable
from cassandra.cluster import NoHostAvailable, Session
from cassandra.concurrent import execute_concurrent
from cassandra.connection import ConnectionException
from cassandra.query import BatchStatement, BatchType, BoundStatement, Statement
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from tally.errors import TallyError

_CONCURRENCY = 32
# Cassandra refuses a batch above 16 MiB, and one that large holds up its neighbours long before.
BATCH_BYTES = 1 << 20
# Of a bound statement beside its values: lengths, the statement's id.
_STATEMENT_BYTES = 64
# What one call keeps in memory; a batch counts as so much at least, for its Python objects.
_AT_ONCE_BYTES, _LEAST_BYTES = 32 << 20, 32 << 10
RETRY_SECONDS = 90.0
# Outcomes after which a statement may or may not have been applied; written again it changes nothing.
TRANSIENT = (OperationTimedOut, Timeout, Unavailable, NoHostAvailable, ConnectionException)

Statements: TypeAlias = Sequence[Statement]
Partition: TypeAlias = Iterable[Sequence[BoundStatement]]
Item = TypeVar("Item")


class Unacknowledged(TallyError):
    """Raised when Cassandra did not acknowledge a write in time; the micro-batch fails and is repeated after a restart."""


def write_all(session: Session, statements: Iterable[Statement], seconds: float = RETRY_SECONDS) -> None:
    """Nothing, once every statement is acknowledged.

    Repeats time-outs and unavailable nodes for `seconds`, then raises Unacknowledged; any other error is raised as it is.
    Statements must be idempotent: the same key, values and write timestamp each time.
    """
    waiting = list(statements)
    patience = Retrying(
        retry=retry_if_exception_type(Unacknowledged),
        stop=stop_after_delay(seconds),
        wait=wait_random_exponential(multiplier=0.2, max=5),
        reraise=True,
    )
    for attempt in patience:
        with attempt:
            waiting, reason = _without_answer(session, waiting)
            if waiting:
                raise Unacknowledged(f"Cassandra: {len(waiting)} writes were not acknowledged ({reason}); look into its log")


def write_partitions(session: Session, partitions: Iterable[Partition], most_bytes: int = BATCH_BYTES) -> None:
    """Nothing, once every statement is acknowledged: those of one partition together, up to so many serialised bytes.

    A partition comes as groups; none is cut but one that is larger by itself. A single larger statement goes alone.
    """
    batches = (batch for groups in partitions for batch in batches_of(groups, most_bytes))
    for some in _cut(batches, lambda batch: max(_bytes(batch), _LEAST_BYTES), _AT_ONCE_BYTES):
        write_all(session, [one_partition(batch) for batch in some])


def batches_of(groups: Partition, most_bytes: int = BATCH_BYTES) -> Iterator[list[BoundStatement]]:
    """The groups of one partition joined, in order, up to so many bytes; as write_partitions()."""
    parts = (part for group in groups for part in ([group] if _bytes(group) <= most_bytes else [[one] for one in group]))
    for some in _cut(parts, _bytes, most_bytes):
        yield [statement for part in some for statement in part]


def _cut(items: Iterable[Item], weight: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    held: list[Item] = []
    total = 0
    for item in items:
        weighs = weight(item)
        if held and total + weighs > most:
            yield held
            held, total = [], 0
        held.append(item)
        total += weighs
    if held:
        yield held


def _bytes(statements: Sequence[BoundStatement]) -> int:
    return sum(_STATEMENT_BYTES + sum(len(value) for value in statement.values if value) for statement in statements)


def one_partition(statements: Sequence[BoundStatement]) -> BatchStatement:
    """The statements, all of one partition, as one batch: applied and seen together, for the price of one write."""
    batch = BatchStatement(batch_type=BatchType.UNLOGGED)
    for statement in statements:
        batch.add(statement)
    batch.is_idempotent = True
    return batch


def _without_answer(session: Session, statements: Statements) -> tuple[list[Statement], object]:
    """The statements whose fate is unknown after one try, and why of the first."""
    tries = [(statement, ()) for statement in statements]
    results = execute_concurrent(session, tries, concurrency=_CONCURRENCY, raise_on_first_error=False)
    outcomes = zip(statements, results, strict=True)
    failed = [(statement, result.result_or_exc) for statement, result in outcomes if not result.success]
    for _, error in failed:
        if not isinstance(error, TRANSIENT):
            raise error
    return [statement for statement, _ in failed], failed[0][1] if failed else None
