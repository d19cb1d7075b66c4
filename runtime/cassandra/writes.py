"""Statements to Cassandra, retried by one rule until each is answered: the only way to write rows.

Writes are grouped into few batches. Values are bound in a third of the time of the driver's bind().
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from struct import Struct
from typing import Any, TypeAlias, TypeVar

from cassandra import OperationTimedOut, Timeout, Unavailable, cqltypes
from cassandra.cluster import NoHostAvailable, Session
from cassandra.concurrent import execute_concurrent
from cassandra.connection import ConnectionException
from cassandra.metadata import Metadata
from cassandra.query import BatchStatement, BatchType, BoundStatement, PreparedStatement, Statement
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from tally.errors import CassandraTimeout, CassandraWriteTimeout

_CONCURRENCY = 32
# Limits of one batch. Cassandra refuses a batch over several partitions above 50 KiB by its own
# count, about twice the bytes on the wire.
BATCH_STATEMENTS, BATCH_BYTES = 60, 20_000
# Limit of a larger group, which is a batch of its own: Cassandra refuses any above 16 MiB, and a
# large one delays others.
GROUP_BYTES = 1 << 20
# The bytes of a bound statement beside its values: lengths, the statement's id.
_STATEMENT_BYTES = 64
# Bytes that one call holds in memory, and the least that a batch counts for its Python objects.
_AT_ONCE_BYTES, _MIN_BYTES = 32 << 20, 32 << 10
RETRY_SECONDS = 90.0
# Outcomes after which a statement may or may not be applied; writing it again changes nothing.
TRANSIENT_ERRORS = (OperationTimedOut, Timeout, Unavailable, NoHostAvailable, ConnectionException)

Group: TypeAlias = Sequence[BoundStatement]
# A statement, and the values for its marks.
StatementCall: TypeAlias = tuple[Statement, Sequence[object]]
Item = TypeVar("Item")
Bind: TypeAlias = Callable[[Iterable[Any]], BoundStatement]
Pack: TypeAlias = Callable[[Any], bytes]
# An instant is milliseconds since 1970, a day days since -5877641-06-23
# (runtime.connect.CQL_DATE_ZERO).
_PACKS: dict[type, Pack] = {
    # The server announces a `text` column to clients as varchar.
    cqltypes.VarcharType: str.encode,
    cqltypes.UTF8Type: str.encode,
    cqltypes.LongType: Struct(">q").pack,
    cqltypes.DateType: Struct(">q").pack,
    cqltypes.Int32Type: Struct(">i").pack,
    cqltypes.SimpleDateType: Struct(">I").pack,
}


def write_all(
    session: Session, statements: Iterable[Statement], seconds: float = RETRY_SECONDS
) -> None:
    """Block until every statement is acknowledged.

    Retries after time-outs and unavailable nodes for `seconds`, then raises CassandraWriteTimeout;
    any other error is raised unchanged. Statements must be idempotent: the same key, values and
    write timestamp each time.
    """
    calls = [(statement, ()) for statement in statements]
    unanswered = CassandraWriteTimeout, "writes were not acknowledged"
    _execute_until_answered(session, calls, lambda _: None, seconds, unanswered)


def _execute_until_answered(
    session: Session,
    tries: Sequence[StatementCall],
    take: Callable[[Any], Item],
    seconds: float,
    unanswered: tuple[type[CassandraTimeout], str],
) -> list[Item]:
    """Results of `take` on each statement's answer, in their order: the only retry rule.

    Retries statements of unknown outcome after a time-out, also one within `take`; raises the error
    with its text when the seconds are over, and any other error unchanged.
    """
    found: dict[int, Item] = {}
    repeated = Retrying(
        retry=retry_if_exception_type(CassandraTimeout),
        stop=stop_after_delay(seconds),
        wait=wait_random_exponential(multiplier=0.2, max=5),
        reraise=True,
    )
    for attempt in repeated:
        with attempt:
            waiting = {place: entry for place, entry in enumerate(tries) if place not in found}
            answers, reason = _try_once(session, waiting, take)
            found.update(answers)
            if left := len(tries) - len(found):
                error, what = unanswered
                why = " ".join(str(reason).split())
                raise error(f"Cassandra: {left} {what} ({why}); look into its log")
    return [found[place] for place in range(len(tries))]


def prepare_idempotent(session: Session, text: str) -> PreparedStatement:
    """Prepare the statement; it must be one that changes nothing when it is sent again."""
    statement = session.prepare(text)
    # The flag is explicit: without it the driver repeats nothing.
    statement.is_idempotent = True
    return statement


def write_rows(
    session: Session, text: str, rows: Iterable[Sequence[object]], seconds: float = RETRY_SECONDS
) -> None:
    """Block until each row, the values of one statement, is acknowledged. As write_groups()."""
    statement = prepare_idempotent(session, text)
    write_groups(session, ([statement.bind(row)] for row in rows), seconds)


def write_groups(session: Session, groups: Iterable[Group], seconds: float = RETRY_SECONDS) -> None:
    """Block until every statement is acknowledged; raise as write_all() does.

    The statements of a group, all of one partition, become visible together.

    Groups of the same replicas are sent together (build_batches()). Statements as for write_all().
    """
    waiting, total = list[BatchStatement](), 0
    for batch in build_batches(groups, session.cluster.metadata):
        weighs = max(batch.bytes, _MIN_BYTES)
        if waiting and total + weighs > _AT_ONCE_BYTES:
            write_all(session, waiting, seconds)
            waiting, total = [], 0
        waiting.append(to_unlogged_batch(batch.statements))
        total += weighs
    write_all(session, waiting, seconds)


def build_batches(groups: Iterable[Group], nodes: Metadata) -> "Iterator[WriteBatch]":
    """Join the groups into batches of partitions that the same nodes hold.

    A batch stays within BATCH_STATEMENTS and BATCH_BYTES. The node that takes such a batch holds
    all of it. Only a group above GROUP_BYTES is split; one above the smaller limits is a batch of
    its own. A single larger statement is sent alone.
    """
    waiting: dict[Hashable, WriteBatch] = {}
    # A single node holds all: asking the driver for the replicas costs 7 µs a group (measured).
    is_single = len(nodes.all_hosts()) == 1
    for group in groups:
        for part in _split_group(group):
            place = None if is_single else _replicas(part.statements[0], nodes)
            batch = waiting.setdefault(place, WriteBatch())
            if not batch.has_room_for(part):
                yield batch
                batch = waiting[place] = WriteBatch()
            batch.statements += part.statements
            batch.bytes += part.bytes
    yield from waiting.values()


@dataclass
class WriteBatch:
    """Statements that are sent together, and their approximate size in bytes."""

    statements: list[BoundStatement] = field(default_factory=list)
    bytes: int = 0

    def has_room_for(self, part: "WriteBatch") -> bool:
        """Whether the part fits into this batch."""
        count = len(self.statements) + len(part.statements)
        fits = count <= BATCH_STATEMENTS and self.bytes + part.bytes <= BATCH_BYTES
        return fits or not self.statements


def _split_group(group: Group) -> Iterator[WriteBatch]:
    whole = _weigh(group)
    if whole.bytes <= GROUP_BYTES:
        return iter([whole])
    return (_weigh([statement]) for statement in group)


def _weigh(statements: Group) -> WriteBatch:
    value_bytes = sum(sum(map(len, filter(None, bound.values))) for bound in statements)
    return WriteBatch([*statements], _STATEMENT_BYTES * len(statements) + value_bytes)


def _replicas(statement: BoundStatement, nodes: Metadata) -> Hashable:
    found = nodes.get_replicas(statement.keyspace, statement.routing_key)
    # If the placement is unknown, a partition is sent by itself.
    return frozenset(host.endpoint for host in found) if found else statement.routing_key


def to_unlogged_batch(statements: Iterable[Statement]) -> BatchStatement:
    """The statements as one batch; those of one partition become visible together."""
    # A logged batch is first stored on other nodes for a replay: here the writer itself retries.
    batch = BatchStatement(batch_type=BatchType.UNLOGGED)
    for statement in statements:
        batch.add(statement)
    batch.is_idempotent = True
    return batch


def _try_once(
    session: Session, tries: Mapping[int, StatementCall], take: Callable[[Any], Item]
) -> tuple[dict[int, Item], object]:
    """The answers to one try of each statement, and the reason of the first failure."""
    # Every answer is awaited: the error of one statement does not concern the others.
    results = execute_concurrent(
        session, [*tries.values()], concurrency=_CONCURRENCY, raise_on_first_error=False
    )
    found: dict[int, Item] = {}
    reasons: list[object] = []
    for place, result in zip(tries, results, strict=True):
        try:
            if not result.success:
                raise result.result_or_exc
            found[place] = take(result.result_or_exc)
        except TRANSIENT_ERRORS as error:
            reasons.append(error)
    return found, next(iter(reasons), None)


def binder(statement: PreparedStatement) -> Bind:
    """A function that binds values, one for each mark of the statement; None is null.

    Raises struct.error for a number that the column cannot hold, TypeError for a value of another
    type, ValueError for another count.
    """
    packs = [
        _PACKS.get(column.type) or partial(_serialize, column.type, statement.protocol_version)
        for column in statement.column_metadata
    ]

    def bind(values: Iterable[Any]) -> BoundStatement:
        bound_statement = BoundStatement(statement)
        bound_statement.values = [
            None if value is None else pack(value)
            for pack, value in zip(packs, values, strict=True)
        ]
        return bound_statement

    return bind


def _serialize(kind: Any, version: int, value: Any) -> Any:
    if isinstance(value, list):
        # Arrow yields a struct as a dict; the column takes a tuple.
        value = [tuple(entry.values()) if isinstance(entry, dict) else entry for entry in value]
    return kind.serialize(value, version)


def chunks(items: Sequence[Item], at_once: int) -> Iterator[list[Item]]:
    """Yield the items in their order, at most `at_once` in a piece; no piece is empty.

    >>> list(chunks("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    starts = range(0, len(items), at_once)
    return (list(items[first : first + at_once]) for first in starts)


def read_many(
    session: Session,
    statement: PreparedStatement,
    queries: Iterable[Sequence[object]],
    seconds: float = RETRY_SECONDS,
) -> list[list[Any]]:
    """All rows of each query (the values of one statement), in the order of the queries.

    Retries after time-outs and unavailable nodes for `seconds`, then raises CassandraTimeout; any
    other error is raised unchanged.
    """
    calls = [(statement, values) for values in queries]
    unanswered = CassandraTimeout, "questions were not answered"
    # `list` reads all pages: the driver fetches later pages during the iteration, and those may
    # time out too.
    return _execute_until_answered(session, calls, list, seconds, unanswered)
