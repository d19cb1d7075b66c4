"""Partitions, their bounds and a group's positions; what the brokers do not know is an error and
never a zero."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from runtime.kafka.topics import (
    Bounds,
    partition_numbers,
    read_committed_positions,
    read_ends,
    read_partition_bounds,
    read_topic_bounds,
    read_topic_positions,
)
from tests.support.clients.scripted_consumer import ScriptedConsumer

CONSUMER = ScriptedConsumer(watermarks={("sales", 0): (3, 9), ("sales", 1): (0, 0)})


def test_partitions_come_ascending() -> None:
    assert partition_numbers(CONSUMER, "sales", 1.0) == [0, 1]


def test_missing_topic_is_an_error_that_names_it_and_not_a_topic_without_partitions() -> None:
    with pytest.raises(KafkaException, match=r"topic traffic: .*Unknown topic"):
        partition_numbers(CONSUMER, "traffic", 1.0)


def test_bounds_are_told_of_every_partition() -> None:
    assert read_topic_bounds(CONSUMER, "sales", 1.0) == {
        0: Bounds(earliest=3, end=9),
        1: Bounds(0, 0),
    }


class WakingConsumer(ScriptedConsumer):
    """Takes its partitions for unknown until the topic was asked for so many times."""

    def __init__(self, asked: int, code: int = KafkaError._UNKNOWN_PARTITION) -> None:
        super().__init__(watermarks=CONSUMER.watermarks)
        self.still, self.code = asked, code

    def list_topics(self, topic: str, seconds: float) -> Any:
        self.still -= 1
        return super().list_topics(topic, seconds)

    def get_watermark_offsets(self, at: TopicPartition, timeout: float) -> tuple[int, int]:
        if self.still > 0:
            raise KafkaException(KafkaError(self.code))
        return super().get_watermark_offsets(at, timeout)


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
    ],
)
def test_partition_that_nobody_leads_yet_is_asked_for_again(code: int) -> None:
    assert read_partition_bounds(WakingConsumer(2, code), ("sales", 0), 5.0) == Bounds(3, 9)


def test_partition_that_stays_unknown_is_an_error_when_the_time_is_over() -> None:
    with pytest.raises(KafkaException, match="Unknown partition"):
        read_partition_bounds(WakingConsumer(1000), ("sales", 0), 0.3)


def test_any_other_error_is_told_at_once() -> None:
    consumer = WakingConsumer(2, KafkaError.TOPIC_AUTHORIZATION_FAILED)

    with pytest.raises(KafkaException, match="authorization failed"):
        read_partition_bounds(consumer, ("sales", 0), 5.0)
    assert consumer.still == 2


def test_ends_are_told_by_topic() -> None:
    assert read_ends(CONSUMER, ["sales"], 1.0) == {"sales": {0: 9, 1: 0}}


def test_position_that_the_brokers_do_not_tell_is_an_error_and_not_the_beginning() -> None:
    class Unknown:
        topic, partition, offset = "sales", 1, -1001
        error = KafkaError(KafkaError.NOT_COORDINATOR)

    consumer = ScriptedConsumer(
        positions={("sales", 0): TopicPartition("sales", 0, 7), ("sales", 1): Unknown()}
    )

    assert [at.offset for at in read_committed_positions(consumer, [("sales", 0)], 1.0)] == [7]
    with pytest.raises(KafkaException, match="topic sales, partition 1: no committed position"):
        read_committed_positions(consumer, consumer.lanes, 1.0)


def test_partition_without_a_position_has_been_read_up_to_its_beginning() -> None:
    consumer = ScriptedConsumer(
        positions={
            ("sales", 0): TopicPartition("sales", 0, 7),
            ("sales", 1): TopicPartition("sales", 1, -1001),
        }
    )

    assert read_topic_positions(consumer, "sales", 1.0) == {0: 7, 1: 0}


def test_who_asks_for_no_partition_asks_nobody() -> None:
    assert read_committed_positions(None, [], 1.0) == []
