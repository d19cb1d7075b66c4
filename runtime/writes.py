"""Statements written to Cassandra until each is acknowledged: the one way to write rows.

They are put together into few batches. What has no answer is tried again by one rule, which reads
go by too (runtime/reads.py).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from cassandra import OperationTimedOut, Timeout, Unavailable
from cassandra.cluster import NoHostAvailable, Session
from cassandra.concurrent import ExecutionResult, execute_concurrent
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

from tally.errors import Unacknowledged, Unanswered

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
# A statement, and the values for its marks.
Try: TypeAlias = tuple[Statement, Sequence[object]]
Item = TypeVar("Item")


@dataclass(frozen=True)
class RetryLimit:
    """How long statements are tried again, and the error after that: `what` they were not."""

    seconds: float
    error: type[Unanswered]
    what: str


def write_all(
    session: Session, statements: Iterable[Statement], seconds: float = RETRY_SECONDS
) -> None:
    """Block until every statement is acknowledged.

    Repeats time-outs and unavailable nodes for `seconds`, then raises Unacknowledged; any other
    error is raised as it is. Statements must be idempotent: the same key, values and write
    timestamp each time.
    """
    # What has no answer may be applied all the same; the same values written again change nothing.
    limit = RetryLimit(seconds, Unacknowledged, "writes were not acknowledged")
    until_answered(session, [(one, ()) for one in statements], lambda _: None, limit)


def until_answered(
    session: Session, tries: Sequence[Try], take: Callable[[Any], Item], limit: RetryLimit
) -> list[Item]:
    """What `take` makes of each statement's answer, in their order: the one retry rule.

    Repeats those whose fate is unknown after a time-out, also one within `take`; raises the error
    of the limit, and any other as it is.
    """
    found: dict[int, Item] = {}
    repeated = Retrying(
        retry=retry_if_exception_type(Unanswered),
        stop=stop_after_delay(limit.seconds),
        wait=wait_random_exponential(multiplier=0.2, max=5),
        reraise=True,
    )
    for attempt in repeated:
        with attempt:
            waiting = {place: one for place, one in enumerate(tries) if place not in found}
            answers, reason = _answers(session, waiting, take)
            found.update(answers)
            if left := len(tries) - len(found):
                why = " ".join(str(reason).split())
                raise limit.error(f"Cassandra: {left} {limit.what} ({why}); look into its log")
    return [found[place] for place in range(len(tries))]


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


def _answers(
    session: Session, tries: Mapping[int, Try], take: Callable[[Any], Item]
) -> tuple[dict[int, Item], object]:
    """What was answered to one try of each, and why the first of the others was not."""
    results = execute_concurrent(
        # Every answer is waited for: the error of one says nothing of the others.
        session,
        [*tries.values()],
        concurrency=_CONCURRENCY,
        raise_on_first_error=False,
    )
    found: dict[int, Item] = {}
    reasons: list[object] = []
    for place, result in zip(tries, results, strict=True):
        try:
            found[place] = take(_answer(result))
        except TRANSIENT as error:
            reasons.append(error)
    return found, next(iter(reasons), None)


def _answer(result: ExecutionResult) -> Any:
    if not result.success:
        raise result.result_or_exc
    return result.result_or_exc
