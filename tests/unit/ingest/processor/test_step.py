"""In which order the loop calls a step that remembers, and what becomes wrong otherwise.

Kafka is a stand-in.
"""

from collections.abc import Iterable, Sequence

import pytest
from confluent_kafka import TopicPartition

from runtime.kafka.topics import PartitionId
from runtime.processor import loop
from runtime.processor.loop import BatchLimits, read_state
from runtime.processor.step import Input, Output
from tally.config.settings import Settings
from tally.errors import TallyError, TransactionAborted
from tests.support.oracles.key_counts import KeyCounts
from tests.unit.ingest.gateway.brokers import STATE, Brokers, Outcome

BEGIN = ["renew", "join"]
# The batch waits for the next record, whatever the time.
ONE_BY_ONE = BatchLimits(1, idle_seconds=60.0, most_seconds=60.0)


class Noted(KeyCounts):
    """Counts, and notes each call among those of the brokers."""

    def __init__(self, brokers: Brokers) -> None:
        super().__init__("out", STATE)
        self.calls = brokers.calls

    def restore(self, state: Iterable[Input]) -> None:
        records = [*state]
        told = [f"{(one.key or b'').decode()}={(one.value or b'').decode()}" for one in records]
        self.calls.append(f"restore({' '.join(told)})")
        super().restore(records)

    def process(self, record: Input) -> Sequence[Output]:
        self.calls.append(f"process({(record.key or b'').decode()})")
        return super().process(record)

    def before_commit(self) -> Sequence[Output]:
        self.calls.append("before_commit()")
        return super().before_commit()


def test_calls_are_those_of_the_worked_example() -> None:
    brokers = Brokers({0: "abab"}, [(0,), 1, 1, 1], ["committed", "aborted"])
    brokers.keep(0, a=1, b=1)
    brokers.committed[0] = 2

    brokers.run(Noted(brokers))

    assert brokers.calls == [
        *BEGIN,
        *("positions of [0]", "state of [0]", "restore(a=1 b=1)"),
        *("process(a)", "before_commit()", "committed"),
        *("process(b)", "before_commit()", "aborted"),
        *("positions of [0]", "state of [0]", "restore(a=1 b=1 a=2)"),
        *("process(b)", "before_commit()", "committed"),
    ]
    assert brokers.told == ["a=2", "b=2"]


@pytest.mark.parametrize(
    ("outcome", "restored", "after"),
    [
        ("lost", "restore()", ["process(a)", "before_commit()", "committed"]),
        ("applied", "restore(a=1)", ["process(a)", "before_commit()", "committed"]),
    ],
)
def test_state_is_read_again_after_a_new_producer_whatever_became_of_the_commit(
    outcome: Outcome, restored: str, after: list[str]
) -> None:
    brokers = Brokers({0: "aa"}, [(0,), 1, 1], [outcome])

    brokers.run(Noted(brokers))

    failed = brokers.calls.index(outcome)
    assert brokers.calls[failed + 1 :] == [
        *("renew", "positions of [0]", "state of [0]", restored),
        *after,
    ]
    assert brokers.told == (["a=1"] if outcome == "lost" else ["a=1", "a=2"])


def test_state_of_all_partitions_is_read_again_when_one_more_is_given() -> None:
    brokers = Brokers({0: "ab", 1: "c"}, [(0,), 1, (0, 1), 2])
    brokers.keep(1, c=5)

    brokers.run(Noted(brokers))

    assert brokers.calls[2:] == [
        *("positions of [0]", "state of [0]", "restore()"),
        *("process(a)", "before_commit()", "committed"),
        *("positions of [0, 1]", "state of [0, 1]", "restore(c=5 a=1)"),
        *("process(b)", "process(c)", "before_commit()", "committed"),
    ]
    assert brokers.told == ["a=1", "b=1", "c=6"]


def test_what_was_taken_when_the_partitions_moved_is_counted_once() -> None:
    brokers = Brokers({0: "aaa"}, [(0,), 1, (0,), 1, 1, 1])

    brokers.run(Noted(brokers), ONE_BY_ONE)

    assert brokers.told == ["a=1", "a=2"]


def test_who_keeps_its_memory_over_an_abort_is_wrong() -> None:
    class Keeping(Noted):
        def restore(self, state: Iterable[Input]) -> None:
            if "aborted" not in self.calls:
                super().restore(state)

    brokers = Brokers({0: "aa"}, [(0,), 1, 1, 1], ["aborted"])
    brokers.run(Keeping(brokers))

    assert brokers.told == ["a=2", "a=3"]


def test_tick_comes_once_a_transaction_and_goes_with_its_positions() -> None:
    brokers = Brokers({0: "aabab"}, [(0,), 5])

    brokers.run(Noted(brokers), BatchLimits(2, idle_seconds=0.0))

    assert [call for call in brokers.calls if not call.startswith("process")][5:] == [
        *("before_commit()", "committed"),
        *("before_commit()", "committed"),
        *("before_commit()", "committed"),
    ]
    assert [(record.key, record.value) for record in brokers.kept] == [
        *((b"a", b"2"), (b"b", b"1")),
        *((b"a", b"3"), (b"b", b"2")),
    ]
    assert brokers.committed == {0: 5}


def test_tick_that_gives_up_stores_nothing_and_has_the_records_again() -> None:
    class Blind(Noted):
        def before_commit(self) -> Sequence[Output]:
            if self.calls.count("restore()") == 1:
                raise TransactionAborted("Cassandra does not answer")
            return super().before_commit()

    brokers = Brokers({0: "a"}, [(0,), 1, 1])
    brokers.run(Blind(brokers))

    assert [call for call in brokers.calls if call != "process(a)"][4:] == [
        *("restore()", "positions of [0]", "state of [0]", "restore()"),
        *("before_commit()", "committed"),
    ]
    assert brokers.told == ["a=1"]


def test_without_a_record_there_is_no_tick_and_no_transaction() -> None:
    class Eager(Noted):
        def before_commit(self) -> Sequence[Output]:
            return [*super().before_commit(), Output("out", None, b"I am here")]

    brokers = Brokers({0: "a"}, [(0,), 0, 0, 0])
    brokers.run(Eager(brokers))

    assert brokers.calls[2:] == ["positions of [0]", "state of [0]", "restore()"]
    assert brokers.told == []


def test_partitions_are_read_as_they_come_unless_the_step_has_an_event_time() -> None:
    class Timed(Noted):
        def event_time(self, record: Input) -> float:
            return float(record.offset)

    def told(step: type[Noted]) -> list[str]:
        # Partition 1 is silent, and nobody knows yet whether it has anything older.
        brokers = Brokers({0: "ab", 1: ""}, [(0, 1), 2, 0])
        brokers.run(step(brokers))
        return brokers.told

    assert told(Noted) == ["a=1", "b=1"]
    assert told(Timed) == []


def test_state_is_that_of_the_partitions_which_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[PartitionId] = []

    def read(_settings: Settings, partition_ids: Sequence[PartitionId]) -> Iterable[object]:
        asked.extend(partition_ids)
        return ()

    monkeypatch.setattr(loop, "read_to_high_watermark", read)
    ours = [TopicPartition(topic, number) for topic in ("in", "ticks") for number in (3, 1)]

    assert [*read_state(Settings(), STATE, ("in", "ticks"), ours)] == []
    assert asked == [(STATE, 1), (STATE, 3)]


def test_state_of_inputs_that_are_not_divided_alike_is_refused() -> None:
    ours = [TopicPartition("in", 1), TopicPartition("in", 2), TopicPartition("ticks", 1)]

    with pytest.raises(TallyError, match=r"in, ticks: .* give them one number of partitions"):
        read_state(Settings(), STATE, ("in", "ticks"), ours)


class Announcing(Noted):
    """Counts, and notes that it was told of a commit."""

    def on_commit(self) -> None:
        self.calls.append("stored()")


def test_a_step_hears_of_each_transaction_that_is_stored_at_once_and_of_no_other() -> None:
    outcomes: list[Outcome] = ["committed", "aborted", "lost", "applied"]
    brokers = Brokers({0: "ababab"}, [(0,), *[1] * 6], outcomes)

    brokers.run(Announcing(brokers))

    calls = brokers.calls
    assert [calls[number - 1] for number, one in enumerate(calls) if one == "stored()"] == [
        "committed"
    ] * calls.count("committed")
    assert calls.count("committed") == 3
