"""What is done with records: the part of a processor that is written anew for each."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence

from runtime.processor.record import Input, Output


class Step(ABC):
    """A function of records, with a memory of what it has taken if it wants one.

    The loop calls it from one thread, in an order that no failure changes:

    - `restore` before the first record, and again before the next one whenever what was taken may
      not count: partitions were given or lost, a transaction was aborted or its outcome is unknown;
    - `process` for each record, of one partition in the order of its offsets;
    - `tick` once a transaction, just before it begins, and never without a record since the last,
      but while partitions are held;
    - `stored` once it is known to be stored, before anything else: not called, nothing is.

    A step that counts by key, and keeps its counts in the topic `counts`. A predecessor has counted
    `a` and `b` of partition 0, at offsets 0 and 1:

        what happens                | called               | what the step gives
        joins; the position is 2    | restore(a=1 b=1)     |
        a is polled, at offset 2    | process(a)           | "a=2" to who wants to know
        nothing more has come       | tick()               | a=2 to partition 0 of `counts`
        committed, with position 3  |                      |
        b is polled, at offset 3    | process(b)           | "b=2"
        nothing more has come       | tick()               | b=2 to partition 0 of `counts`
        aborted; the position is 3  | restore(a=1 b=1 a=2) |
        b is polled again           | process(b)           | "b=2"

    Did it remember what was aborted, it would say "b=3" now, and nobody would ever be told "b=2".
    """

    # Compacted, with as many partitions as each topic that is read; "" for a memory that may be
    # lost with any transaction.
    state_topic: str = ""

    @property
    def held_partitions(self) -> Collection[int]:
        """Numbers of partitions of which work is left that records have caused: by default none.

        No more of their records are given, and their positions stay where they are, until a tick()
        after which they are not held any more. Who dies meanwhile is given the records again.
        """
        return ()

    @abstractmethod
    def process(self, record: Input) -> Sequence[Output]:
        """What the record becomes, in the order in which it is to be sent.

        What is to be remembered of it goes to `state_topic` too, here or with the next tick, and
        to the record's own partition: whoever is given that one restores it.
        """

    @abstractmethod
    def restore(self, state: Iterable[Input]) -> None:
        """Begin anew: forget what was remembered, and remember what the state says.

        `state` is read while it is gone through: the committed records of `state_topic` in the
        partitions that are ours now, each partition in its order, so that of a key the last one
        counts, and one without value deletes it. None without a topic. It has to end within the
        minute for which the group waits for a process that does not poll.
        """

    def tick(self) -> Sequence[Output]:
        """What the records since the last transaction become together: by default nothing more.

        What depends on more than one record, or is slow to find out, belongs here. Time alone
        calls nothing: a transaction without positions would be taken from a process whose
        partitions another one has by now. Who acts by the clock reads a topic of ticks.

        Raises NotYet when it cannot find out now, and has changed nothing: it is asked again, and
        given no record before; Aborted when it has: nothing is stored, and all comes again.
        """
        return ()

    def stored(self) -> None:  # noqa: B027
        """All that was given since the last transaction is stored, and the positions with it.

        Here begins what must not be done before, such as a call that another process would have to
        know of. It must not take long, for nothing is read meanwhile, and has to expect that the
        process dies just before: then whoever restores the state finds what was to be done.
        """

    def event_time(self, record: Input) -> float | None:
        """Seconds since 1970 (UTC), by which partitions are read in order.

        None for a record that waits for no other partition. By default none does, and each is
        taken as it comes.
        """
        return None
