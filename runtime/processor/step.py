"""The step of a processor, specific to each, and the records that it takes, gives and restores."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

import msgspec
import structlog

from tally.errors import UnrecoverableError

Headers = Sequence[tuple[str, bytes]]
Value = TypeVar("Value")

log = structlog.get_logger()


class Input(msgspec.Struct, frozen=True):
    """One record of an input topic; its Kafka timestamp is in milliseconds since 1970 (UTC)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Output(msgspec.Struct, frozen=True):
    """One record to send; partition -1: the client chooses one by the key."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int = -1
    headers: Headers = ()


# A function to seconds since 1970 (UTC), or None when the record has no event time and must not
# wait for others.
EventTime = Callable[[Input], float | None]


def parse_state(record: Input, parse: Callable[[bytes], Value]) -> Value:
    """Parse a record of a step's own state. Raises UnrecoverableError if it cannot be read."""
    try:
        return parse(record.value or b"")
    except msgspec.DecodeError as error:
        raise UnrecoverableError(
            f"{record.topic}, partition {record.partition}, offset {record.offset}: {error};"
            " it was written by another version: start the one that wrote it"
        ) from error


def newest_values(
    records: Iterable[Input], parse: Callable[[Input], Value]
) -> dict[int, dict[bytes, Value]]:
    """The newest value of each key of a compacted topic, by partition, without deleted keys.

    The number of a partition counts from 0. Its values come in the order in which they were written
    last. Each record is parsed when it is read, so that no raw values are held.
    """
    newest: dict[int, dict[bytes, Value]] = {}
    for record in records:
        values, key = newest.setdefault(record.partition, {}), record.key or b""
        # The key moves to the end.
        values.pop(key, None)
        if record.value is not None:
            values[key] = parse(record)
    return newest


def log_unreadable(record: Input, error: Exception) -> None:
    """Log another program's record that cannot be read: to stop would block all behind it."""
    log.error(
        "record not understood and left out",
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        reason=str(error)[:200],
    )


class Step(ABC):
    """A function of records, with optional state of the records that it has taken.

    The loop calls it from one thread, in an order that no failure changes:

    - `restore` before the first record, and again before the next one whenever taken records may
      not count: partitions were assigned or lost, a transaction was aborted or its outcome is
      unknown;
    - `process` for each record, within one partition in the order of its offsets;
    - `before_commit` once per transaction, just before it begins, and never without a record since
      the last one, except while partitions are busy;
    - `on_commit` once the transaction is known to be stored, before anything else; without this
      call nothing is stored.

    Example: a step counts by key, and keeps its counts in the topic `counts`. A predecessor has
    counted `a` and `b` of partition 0, at offsets 0 and 1:

        event                       | called               | outputs of the step
        joins; the position is 2    | restore(a=1 b=1)     |
        a is polled, at offset 2    | process(a)           | "a=2" to its readers
        nothing more has come       | before_commit()      | a=2 to partition 0 of `counts`
        committed, with position 3  |                      |
        b is polled, at offset 3    | process(b)           | "b=2"
        nothing more has come       | before_commit()      | b=2 to partition 0 of `counts`
        aborted; the position is 3  | restore(a=1 b=1 a=2) |
        b is polled again           | process(b)           | "b=2"

    If it remembered the aborted record, it would output "b=3" now, and no reader would get "b=2".
    """

    # A compacted topic with as many partitions as each input topic; "" for state that may be lost
    # with any transaction.
    state_topic: str = ""

    @property
    def busy_partitions(self) -> Collection[int]:
        """Numbers of the partitions whose records have caused work that is left; by default none.

        Their further records are not passed, and their positions do not move, until a
        before_commit() after which they are no longer busy. After a crash in between the records
        come again.
        """
        return ()

    @abstractmethod
    def process(self, record: Input) -> Sequence[Output]:
        """The outputs of the record, in the order in which they are to be sent.

        State of the record goes to `state_topic` too, here or with the next before_commit(), and to
        the record's own partition: the process that is assigned this partition restores it.
        """

    @abstractmethod
    def restore(self, state: Iterable[Input]) -> None:
        """Replace the state in memory by the given state.

        `state` is read during the iteration: the committed records of `state_topic` in the
        partitions that are assigned now, each partition in its order, so that the last record of a
        key counts, and one without value deletes it. It is empty without a topic. The call has to
        end within the minute for which the group waits for a process that does not poll.
        """

    def before_commit(self) -> Sequence[Output]:
        """Outputs of all records since the last transaction together; by default none.

        Outputs that depend on more than one record, or are slow to compute, belong here. Time alone
        causes no call: a transaction without positions would be accepted from a process whose
        partitions another one has by now. A step that acts by the clock reads a topic of ticks.

        Raises RetryLater when it cannot compute them now, and has changed nothing: it is called
        again, without a record before; TransactionAborted when it has changed something: nothing is
        stored, and all records come again.
        """
        return ()

    def on_commit(self) -> None:  # noqa: B027
        """Handle that all outputs since the last transaction and the positions are stored.

        Actions that must not happen earlier start here, such as a call that another process would
        have to know of. It must not take long, since nothing is read meanwhile, and must allow for
        a crash just before: the process that restores the state then finds the pending actions.
        """

    def event_time(self, record: Input) -> float | None:
        """Event time in seconds since 1970 (UTC), by which partitions are aligned.

        None for a record that waits for no other partition. By default all are None, and records
        are taken as they come.
        """
        return None
