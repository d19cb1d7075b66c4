"""Statements written to Cassandra until each is acknowledged: the one way to write rows.

They are put together into few batches.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from cassandra import OperationTimedOut, Timeout, Unavailable
from cassandra.cluster import NoHostAvailable, Session
from cassandra.concurrent import execute_concurrent
from cassandra.connection import ConnectionException
from cassandra.metadata import Metadata
from cassandra.query import (
    BatchStatement,
    BatchType,
    BoundStatement,
    PreparedStatement,
    Statement,
)
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from tally.errors import Unacknowledged

_CONCURRENCY = 32
# Of one batch. Cassandra refuses one over several partitions above 50 KiB as it counts, about twice
# what travels.
BATCH_STATEMENTS, BATCH_BYTES = 60, 20_000
# Of a group that is larger by itself, a batch of its own: Cassandra refuses any above 16 MiB, and a
# large one holds up its neighbours.
GROUP_BYTES = 1 << 20
# Of a bound statement beside its values: lengths, the statement's id.
_STATEMENT_BYTES = 64
# What one call keeps in memory; a batch counts as so much at least, for its Python objects.
_AT_ONCE_BYTES, _LEAST_BYTES = 32 << 20, 32 << 10
RETRY_SECONDS = 90.0
# Outcomes after which a statement may or may not be applied; written again it changes nothing.
TRANSIENT = (OperationTimedOut, Timeout, Unavailable, NoHostAvailable, ConnectionException)

Statements: TypeAlias = Sequence[Statement]
Group: TypeAlias = Sequence[BoundStatement]
Item = TypeVar("Item")


def write_all(
    session: Session, statements: Iterable[Statement], seconds: float = RETRY_SECONDS
) -> None:
    """Block until every statement is acknowledged.

    Repeats time-outs and unavailable nodes for `seconds`, then raises Unacknowledged; any other
    error is raised as it is. Statements must be idempotent: the same key, values and write
    timestamp each time.
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
            # What has no answer may be applied all the same; the same values written again change
            # nothing.
            waiting, reason = _without_answer(session, waiting)
            if waiting:
                raise Unacknowledged(
                    f"Cassandra: {len(waiting)} writes were not acknowledged ({reason});"
                    " look into its log"
                )


def prepared(session: Session, text: str) -> PreparedStatement:
    """The statement prepared, for one that changes nothing when it is sent again."""
    statement = session.prepare(text)
    # Said aloud, else the driver repeats nothing.
    statement.is_idempotent = True
    return statement


def write_rows(
    session: Session,
    text: str,
    rows: Iterable[Sequence[object]],
    seconds: float = RETRY_SECONDS,
) -> None:
    """Block until each row, the values of one statement, is acknowledged. As write_groups()."""
    statement = prepared(session, text)
    write_groups(session, ([statement.bind(row)] for row in rows), seconds)


def write_groups(session: Session, groups: Iterable[Group], seconds: float = RETRY_SECONDS) -> None:
    """Block until every statement is acknowledged; raise as write_all() does.

    The statements of a group, all of one partition, are seen together.

    Groups of the same replicas travel together (batches_of()). Statements as for write_all().
    """
    batches = batches_of(groups, session.cluster.metadata)
    for some in _cut(batches, lambda batch: max(batch.bytes, _LEAST_BYTES), _AT_ONCE_BYTES):
        write_all(session, [unlogged(batch.statements) for batch in some], seconds)


def batches_of(groups: Iterable[Group], nodes: Metadata) -> "Iterator[WriteBatch]":
    """The groups joined into batches of partitions that the same nodes hold.

    A batch stays within BATCH_STATEMENTS and BATCH_BYTES. The node that takes such a batch holds
    all of it. No group is parted but one above GROUP_BYTES by itself; one above the smaller limits
    is a batch of its own. A single larger statement goes alone.
    """
    waiting: dict[Hashable, WriteBatch] = {}
    # A single node holds all: to ask the driver for the replicas costs 7 µs a group (measured).
    is_single = len(nodes.all_hosts()) == 1
    for group in groups:
        for part in _parts(group):
            place = None if is_single else _replicas(part.statements[0], nodes)
            held = waiting.setdefault(place, WriteBatch())
            if not held.takes(part):
                yield held
                held = waiting[place] = WriteBatch()
            held.add(part)
    yield from waiting.values()


@dataclass
class WriteBatch:
    """Statements that travel together, and about how many bytes they are."""

    statements: list[BoundStatement] = field(default_factory=list)
    bytes: int = 0

    @classmethod
    def of(cls, statements: Group) -> "WriteBatch":
        """The statements, counted."""
        value_bytes = sum(sum(map(len, filter(None, one.values))) for one in statements)
        return cls([*statements], _STATEMENT_BYTES * len(statements) + value_bytes)

    def takes(self, part: "WriteBatch") -> bool:
        """Whether the other one has room in this."""
        fits = (
            len(self.statements) + len(part.statements) <= BATCH_STATEMENTS
            and self.bytes + part.bytes <= BATCH_BYTES
        )
        return fits or not self.statements

    def add(self, part: "WriteBatch") -> None:
        """The other one is part of this."""
        self.statements += part.statements
        self.bytes += part.bytes


def _parts(group: Group) -> Iterator[WriteBatch]:
    whole = WriteBatch.of(group)
    if whole.bytes <= GROUP_BYTES:
        return iter([whole])
    return (WriteBatch.of([one]) for one in group)


def _replicas(statement: BoundStatement, nodes: Metadata) -> Hashable:
    found = nodes.get_replicas(statement.keyspace, statement.routing_key)
    # Where nobody knows the placement, a partition travels by itself.
    return frozenset(host.endpoint for host in found) if found else statement.routing_key


def _cut(
    items: Iterable[Item],
    weight: Callable[[Item], int],
    most: int,
) -> Iterator[list[Item]]:
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


def unlogged(statements: Statements) -> BatchStatement:
    """The statements as one batch, for the price of one write.

    Of each partition they are applied and seen together.
    """
    # A logged one is first written down on other nodes, to be repeated: here the writer repeats it.
    batch = BatchStatement(batch_type=BatchType.UNLOGGED)
    for statement in statements:
        batch.add(statement)
    batch.is_idempotent = True
    return batch


def _without_answer(session: Session, statements: Statements) -> tuple[list[Statement], object]:
    """The statements whose fate is unknown after one try, and why of the first."""
    tries = [(statement, ()) for statement in statements]
    results = execute_concurrent(
        # Every answer is waited for: the error of one says nothing of the others.
        session,
        tries,
        concurrency=_CONCURRENCY,
        raise_on_first_error=False,
    )
    outcomes = zip(statements, results, strict=True)
    failed = [
        (statement, result.result_or_exc) for statement, result in outcomes if not result.success
    ]
    for _, error in failed:
        if not isinstance(error, TRANSIENT):
            raise error
    return [statement for statement, _ in failed], failed[0][1] if failed else None
