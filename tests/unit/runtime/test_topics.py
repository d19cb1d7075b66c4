"""Partitions, their bounds and a group's positions; what the brokers do not know is an error and
never a zero."""

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from runtime.topics import Bounds, bounds, committed_positions, ends, partition_numbers
from tests.support.scripted_consumer import ScriptedConsumer

CONSUMER = ScriptedConsumer(watermarks={("sales", 0): (3, 9), ("sales", 1): (0, 0)})


def test_partitions_come_ascending() -> None:
    assert partition_numbers(CONSUMER, "sales", 1.0) == [0, 1]


def test_missing_topic_is_an_error_that_names_it_and_not_a_topic_without_partitions() -> None:
    with pytest.raises(KafkaException, match=r"topic traffic: .*Unknown topic"):
        partition_numbers(CONSUMER, "traffic", 1.0)


def test_bounds_are_told_of_every_partition() -> None:
    assert bounds(CONSUMER, "sales", 1.0) == {0: Bounds(earliest=3, end=9), 1: Bounds(0, 0)}


def test_ends_are_told_by_topic() -> None:
    assert ends(CONSUMER, ["sales"], 1.0) == {"sales": {0: 9, 1: 0}}


def test_position_that_the_brokers_do_not_tell_is_an_error_and_not_the_beginning() -> None:
    class Unknown:
        topic, partition, offset = "sales", 1, -1001
        error = KafkaError(KafkaError.NOT_COORDINATOR)

    consumer = ScriptedConsumer(
        positions={("sales", 0): TopicPartition("sales", 0, 7), ("sales", 1): Unknown()}
    )

    assert [at.offset for at in committed_positions(consumer, [("sales", 0)], 1.0)] == [7]
    with pytest.raises(KafkaException, match="topic sales, partition 1: no committed position"):
        committed_positions(consumer, consumer.lanes, 1.0)


def test_who_asks_for_no_partition_asks_nobody() -> None:
    assert committed_positions(None, [], 1.0) == []
