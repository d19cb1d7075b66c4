"""What a rebuild sends: all of it, also when the producer's queue is full, and nothing that a
reader cannot tell apart."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import KafkaError

from batch_layer.views.announcements import Announcements, Restatement
from runtime.sources import SALES
from tally.errors import TallyError
from tests.support.full_producer import FullProducer

START = "2017-03-06T10:00:00.000Z"


def announcements(producer: Any) -> Announcements:
    return Announcements(producer, 4, b"key")


def restated(number: int) -> Restatement:
    return Restatement.of("sales", str(number), START, 3, 4)


def test_every_restatement_is_sent_also_when_the_queue_is_full() -> None:
    producer = FullProducer()

    announcements(producer).restate([restated(number) for number in range(50)])

    assert [json.loads(value)["store_id"] for *_, value, _ in producer.sent] == [
        str(number) for number in range(50)
    ]


def test_restatement_has_an_id_of_its_own_and_the_same_when_it_is_told_again() -> None:
    ids = {
        one.id
        for one in (
            restated(1),
            restated(1),
            restated(2),
            Restatement.of("sales", "1", START, 4, 5),
        )
    }

    assert ids == {f"sales/2017-03-06/3/4/{store}/{START}" for store in "12"} | {
        f"sales/2017-03-06/4/5/1/{START}"
    }


def test_record_that_was_not_stored_is_an_error_that_names_the_topic() -> None:
    with pytest.raises(TallyError, match="topic restatements: 2 records were not sent"):
        announcements(FullProducer(KafkaError(KafkaError._MSG_TIMED_OUT))).restate(
            [restated(1), restated(2)]
        )


@pytest.mark.parametrize("value", [None, "", "{no json, ann@example.org", "x" * 6_000_000])
def test_unreadable_record_of_any_size_is_a_dead_letter_with_its_coordinates(
    value: str | None,
) -> None:
    producer = FullProducer()
    record = {
        "partition": 3,
        "offset": 7,
        "store_id": None,
        "event_id": None,
        "fate": "unreadable",
        "committed_at": datetime(2026, 11, 22, tzinfo=UTC),
        "value": value,
    }

    assert announcements(producer).uncounted(SALES, iter([record])) == 1

    [(topic, key, partition, sent, headers)] = producer.sent
    assert (
        (topic, key, partition) == ("dead-letters", None, 3)
        and len(sent) <= 1_000_000
        and b"ann@" not in sent
    )
    assert [headers[name] for name in ("reason", "topic", "partition", "offset")] == [
        b"unreadable",
        b"sales",
        b"3",
        b"7",
    ]
