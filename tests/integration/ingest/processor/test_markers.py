"""Positions at the end of a partition that ends in markers of transactions."""

from runtime.connect import kafka_consumer
from runtime.kafka.reader import skip_control_records
from runtime.kafka.topics import Bounds, read_topic_bounds
from tally.config.settings import Settings
from tests.support.clients.producers import connected_producer


def moved(settings: Settings, topic: str, positions: dict[int, int]) -> dict[int, int]:
    """The positions moved, by the topic's bounds of now."""
    with kafka_consumer(settings, "test-markers") as consumer:
        kept = read_topic_bounds(consumer, topic, 10)
    return skip_control_records(settings, topic, positions, kept)


def test_position_moves_over_markers_and_what_was_aborted_up_to_the_next_record(
    topic: str, settings: Settings
) -> None:
    producer = connected_producer(settings, {"transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"counted", partition=1)
    producer.commit_transaction()
    producer.begin_transaction()
    producer.produce(topic, b"aborted", partition=1)
    producer.flush(30)
    while_open = moved(settings, topic, {0: 0, 1: 1})
    producer.abort_transaction()
    at_the_end = moved(settings, topic, {1: 1})
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=1)
    producer.flush(30)
    under_way = moved(settings, topic, {1: 1})
    producer.commit_transaction()

    # Offsets: counted 0, its marker 1, aborted 2, its marker 3, open 4.
    assert (while_open, at_the_end, under_way) == ({0: 0, 1: 2}, {1: 4}, {1: 4})
    assert moved(settings, topic, {1: 0}) == {1: 0}
    assert moved(settings, topic, {1: 1}) == {1: 4}


def test_position_before_what_is_kept_stays(topic: str, settings: Settings) -> None:
    assert skip_control_records(settings, topic, {0: 1, 1: 3}, {0: Bounds(2, 9)}) == {0: 1, 1: 3}
