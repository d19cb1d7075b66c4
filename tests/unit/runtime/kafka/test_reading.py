"""A topic is read to the ends that it has now: no record is left out, and silence is an error."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException

from runtime.kafka import reader
from runtime.kafka.reader import (
    RecordPlace,
    first_records,
    read_to_end,
    read_to_high_watermark,
    read_until,
)
from tally.config.settings import Settings
from tally.errors import StackError
from tests.support.clients.scripted_consumer import AWAY, BEYOND, END, ScriptedConsumer, Told

ZERO, ONE = ("sales", 0), ("sales", 1)


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> ScriptedConsumer:
    """The consumer that is made next; every look at the clock is five seconds later."""
    made = ScriptedConsumer()

    def connect(_settings: Settings, _group: str, overrides: dict[str, Any]) -> ScriptedConsumer:
        made.overrides = overrides
        made.isolations.append(overrides.get("isolation.level", "read_committed"))
        return made

    seconds = itertools.count(step=5)
    monkeypatch.setattr(reader, "kafka_consumer", connect)
    monkeypatch.setattr(reader, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    return made


def offsets(**overrides: str) -> list[tuple[int, int]]:
    """Partition and offset of each record of the topic, read to its end."""
    messages = read_to_end(Settings(), ["sales"], overrides)
    return [(message.partition() or 0, message.offset() or 0) for message in messages]


def test_every_partition_is_read_from_its_beginning_to_its_end(consumer: ScriptedConsumer) -> None:
    consumer.told = [[Told(ZERO, 4), Told(ONE, 0)], [Told(ZERO, 6), Told(ZERO, problem=END)]]
    consumer.told += [[Told(ONE, 1), Told(ONE, problem=END)]]

    assert offsets() == [(0, 4), (1, 0), (0, 6), (1, 1)]
    assert sorted(consumer.assigned) == [("sales", 0, 0), ("sales", 1, 0)]


def test_partition_that_ends_twice_does_not_stand_for_another(consumer: ScriptedConsumer) -> None:
    twice = [Told(ZERO, problem=END), Told(ZERO, 1), Told(ZERO, problem=END)]
    consumer.told = [twice, [Told(ONE, 0), Told(ONE, problem=END)]]

    assert offsets() == [(0, 1), (1, 0)]


def test_consumer_is_told_of_ends_and_reads_as_its_overrides_say(
    consumer: ScriptedConsumer,
) -> None:
    consumer.told = [[Told(ZERO, problem=END), Told(ONE, problem=END)]]

    offsets(**{"isolation.level": "read_uncommitted"})

    assert consumer.overrides == {
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 10,
        "isolation.level": "read_uncommitted",
    }
    assert consumer.is_closed


def test_error_of_the_brokers_is_no_end(consumer: ScriptedConsumer) -> None:
    consumer.told = [[Told(ZERO, problem=AWAY)]]

    with pytest.raises(KafkaException):
        offsets()


def test_silence_is_an_error_that_names_what_was_not_read(consumer: ScriptedConsumer) -> None:
    consumer.told = [[Told(ZERO, 0), Told(ZERO, problem=END)]]

    with pytest.raises(StackError, match=r"no answer about sales:1 in 30 s; `tally doctor`"):
        offsets()


def test_silence_counts_from_the_last_record_on(consumer: ScriptedConsumer) -> None:
    pause: list[list[Told]] = [[], [], []]
    consumer.told = [*pause, [Told(ZERO, 0)], *pause, [Told(ZERO, 1)], *pause]
    consumer.told += [[Told(ZERO, problem=END), Told(ONE, problem=END)]]

    assert offsets() == [(0, 0), (0, 1)]


def written(*lanes: tuple[str, int]) -> list[tuple[int, int]]:
    """Partition and offset of each record that the partitions hold."""
    messages = read_to_high_watermark(Settings(), lanes)
    return [(message.partition() or 0, message.offset() or 0) for message in messages]


def test_what_was_written_is_read_though_its_transaction_ends_later(
    consumer: ScriptedConsumer,
) -> None:
    consumer.watermarks = {ZERO: (0, 4), ONE: (0, 3)}
    stable = [Told(ZERO, 0), Told(ZERO, 1, END), Told(ONE, 0), Told(ONE, 3, END)]
    # The marker of its end lies behind the records of the transaction.
    consumer.told = [stable, [], [Told(ZERO, 1), Told(ZERO, 2)], [Told(ZERO, 4, END)]]

    assert written(ZERO, ONE) == [(0, 0), (1, 0), (0, 1), (0, 2)]


def test_how_much_is_written_is_asked_first_and_of_who_sees_open_transactions(
    consumer: ScriptedConsumer,
) -> None:
    consumer.watermarks = {ONE: (0, 0)}
    consumer.told = [[Told(ONE, 0, END)]]

    assert written(ONE) == []
    assert consumer.isolations == ["read_uncommitted", "read_committed"]
    assert consumer.assigned == [("sales", 1, 0)]


def test_transaction_that_does_not_end_is_an_error(consumer: ScriptedConsumer) -> None:
    consumer.watermarks = {ZERO: (0, 2), ONE: (0, 0)}
    consumer.told = [[Told(ZERO, 1, END), Told(ONE, 0, END)]]

    with pytest.raises(StackError, match=r"no answer about sales:0 in 30 s"):
        written(ZERO, ONE)


def test_no_partition_needs_no_consumer(consumer: ScriptedConsumer) -> None:
    assert (written(), consumer.isolations) == ([], [])


def firsts(*places: RecordPlace) -> dict[RecordPlace, int | None]:
    """Offset of the first record at or after each place."""
    found = first_records(Settings(), places, 60.0)
    return {place: None if first is None else first.offset() for place, first in found.items()}


def test_first_record_at_or_after_each_place_is_found(consumer: ScriptedConsumer) -> None:
    consumer.told = [[Told(ONE, 9)], [Told(ZERO, 5)]]

    assert firsts((*ZERO, 5), (*ONE, 7)) == {("sales", 0, 5): 5, ("sales", 1, 7): 9}


@pytest.mark.parametrize("problem", [END, BEYOND])
def test_place_that_no_record_follows_has_none(consumer: ScriptedConsumer, problem: Any) -> None:
    consumer.told = [[Told(ZERO, 5, problem)]]

    assert firsts((*ZERO, 5)) == {("sales", 0, 5): None}


def test_what_follows_a_first_record_is_not_asked_for(consumer: ScriptedConsumer) -> None:
    consumer.told = [[Told(ZERO, 5)], [Told(ZERO, 6)], [Told(ONE, 7)]]

    assert firsts((*ZERO, 5), (*ONE, 7)) == {("sales", 0, 5): 5, ("sales", 1, 7): 7}
    assert consumer.unassigned == [ZERO, ONE]


def test_client_tries_again_after_an_error_by_itself(consumer: ScriptedConsumer) -> None:
    consumer.told = [[Told(ZERO, problem=AWAY)], [Told(ZERO, 5)]]

    assert firsts((*ZERO, 5)) == {("sales", 0, 5): 5}


def test_places_that_are_not_answered_in_time_are_named(consumer: ScriptedConsumer) -> None:
    consumer.told = [[Told(ZERO, 5)]]

    with pytest.raises(StackError, match=r"no answer about sales:1 in 60 s"):
        firsts((*ZERO, 5), (*ONE, 7))
    assert consumer.is_closed


def test_no_place_needs_no_consumer(consumer: ScriptedConsumer) -> None:
    assert (firsts(), consumer.is_closed) == ({}, False)


def test_a_partition_is_read_from_an_offset_on_and_no_further_than_was_asked(
    consumer: ScriptedConsumer,
) -> None:
    consumer.told = [[Told(ZERO, 4), Told(ZERO, 5)], [Told(ZERO, 7), Told(ZERO, 8, END)]]

    found = [message.offset() for message in read_until(Settings(), ZERO, 6, 4)]

    assert (found, consumer.assigned) == ([4, 5], [("sales", 0, 4)])
