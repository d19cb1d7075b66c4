"""The lag, and the cut of an audit, read while the normaliser commits what it has passed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition

from ops import lag
from ops.audit import cut
from ops.local.processes.service import Site
from runtime.connect import NORMALISER_GROUP, cassandra_session, kafka_admin, kafka_consumer
from runtime.kafka.topics import read_topic_bounds
from tally.config.settings import Settings
from tests.support.clients.producers import connected_producer

RAW, CANONICAL = "posTransactionTopic", "sales"
# The ends of what was sent, the normaliser's position, the ends of what it has written.
QUESTIONS = 3


def total(settings: Settings) -> int:
    """The lag of all parts now."""
    with cassandra_session(settings) as session:
        return lag.read_lag(settings, session).total


def read_to_the_end(settings: Settings) -> None:
    """Both layers have read what there is on the canonical topics."""
    with cassandra_session(settings) as session, kafka_consumer(settings, "test-lag") as consumer:
        for number, at in read_topic_bounds(consumer, CANONICAL, 15).items():
            for table in ("speed_progress", "master_position"):
                session.execute(
                    f"UPDATE {table} SET until = %s WHERE family = %s AND partition = %s",
                    (at.end, CANONICAL, number),
                )


@contextmanager
def normalising(settings: Settings) -> Iterator[tuple[Producer, Consumer]]:
    """A receipt that was sent, and its canonical record in a transaction that is still open; with
    a member of the normaliser's group."""
    sender = connected_producer(settings)
    sender.produce(RAW, b"sent", partition=0)
    assert sender.flush(30) == 0
    producer = connected_producer(settings, {"transactional.id": "test-lag"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(CANONICAL, b"canonical", partition=0)
    assert producer.flush(30) == 0
    with kafka_consumer(settings, NORMALISER_GROUP) as member:
        yield producer, member


def raw_positions(settings: Settings) -> list[TopicPartition]:
    """The end of each partition of what was sent."""
    with kafka_consumer(settings, "test-lag") as consumer:
        return [
            TopicPartition(RAW, number, at.end)
            for number, at in read_topic_bounds(consumer, RAW, 15).items()
        ]


def after_question(
    monkeypatch: pytest.MonkeyPatch, asking: ModuleType, number: int, act: Callable[[], object]
) -> list[str]:
    """Make the act happen right after the module's question of this number, from 1.

    Returns the names of its questions, as they are asked."""
    asked: list[str] = []

    def recorder(name: str, question: Callable[..., Any]) -> Callable[..., Any]:
        def answer(*arguments: Any) -> Any:
            found = question(*arguments)
            asked.append(name)
            if len(asked) == number:
                act()
            return found

        return answer

    for name in ("read_ends", "read_committed_positions"):
        monkeypatch.setattr(asking, name, recorder(name, getattr(asking, name)))
    return asked


@pytest.mark.parametrize("number", range(1, QUESTIONS + 1))
def test_what_is_committed_between_two_questions_is_in_the_lag(
    own_site: Site, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    settings = own_site.settings
    with normalising(settings) as (producer, member):
        read_to_the_end(settings)

        def commit() -> None:
            producer.send_offsets_to_transaction(
                raw_positions(settings), member.consumer_group_metadata(), 30
            )
            producer.commit_transaction(30)

        asked = after_question(monkeypatch, lag, number, commit)
        seen = total(settings)

    assert (seen > 0, len(asked)) == (True, QUESTIONS)
    read_to_the_end(settings)
    assert total(settings) == 0


def test_record_of_an_unfinished_commit_is_in_the_lag(own_site: Site) -> None:
    settings = own_site.settings
    admin = kafka_admin(settings)
    with normalising(settings) as (producer, _member):
        read_to_the_end(settings)
        # As right after a commit: the position has moved, the partition still waits for the marker.
        admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(NORMALISER_GROUP, raw_positions(settings))]
        )[NORMALISER_GROUP].result(30)
        # One record, which neither of two layers has read.
        assert total(settings) == 2
        producer.abort_transaction(30)

    read_to_the_end(settings)
    assert total(settings) == 0


def test_record_of_an_unfinished_commit_is_in_the_cut(
    own_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = own_site.settings
    admin = kafka_admin(settings)
    with cassandra_session(settings) as session:
        before = cut.take_cut(settings, session).canonical[CANONICAL][0]
    with normalising(settings) as (producer, _member), cassandra_session(settings) as session:
        admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(NORMALISER_GROUP, raw_positions(settings))]
        )[NORMALISER_GROUP].result(30)

        def commit() -> None:
            producer.commit_transaction(30)
            read_to_the_end(settings)

        after_question(monkeypatch, cut, QUESTIONS, commit)
        found = cut.take_cut(settings, session)

    assert found.canonical[CANONICAL][0] == before + 1
