"""What a rebuild sends: all of it, also when the producer's queue is full, and nothing that a
reader cannot tell apart."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import KafkaError

from batch_layer.views.publish.announcements import Announcements, Restatement
from runtime.registry.sources import SALES
from tally.errors import TallyError
from tests.support.clients.full_producer import FullProducer

START = "2017-03-06T10:00:00.000Z"


def announcements(producer: Any) -> Announcements:
    return Announcements(producer, 4, b"key")


def restated(number: int) -> Restatement:
    return Restatement.for_window("sales", str(number), START, 3, 4)


def test_every_restatement_is_sent_also_when_the_queue_is_full() -> None:
    producer = FullProducer()

    announcements(producer).send_restatements([restated(number) for number in range(50)])

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
            Restatement.for_window("sales", "1", START, 4, 5),
        )
    }

    assert ids == {f"sales/2017-03-06/3/4/{store}/{START}" for store in "12"} | {
        f"sales/2017-03-06/4/5/1/{START}"
    }


def test_record_that_was_not_stored_is_an_error_that_names_the_topic() -> None:
    with pytest.raises(TallyError, match="topic restatements: 2 records were not sent"):
        announcements(FullProducer(KafkaError(KafkaError._MSG_TIMED_OUT))).send_restatements(
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

    assert announcements(producer).send_dead_letters(SALES, iter([record])) == 1

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


def told(value: str, **more: Any) -> tuple[Any, bytes, dict[str, bytes]]:
    """Key, value and headers of the letter of a conflict."""
    producer = FullProducer()
    record = {
        "partition": 3,
        "offset": 7,
        "store_id": "367",
        "event_id": "pos:367:1:0:42",
        "fate": "conflict",
        "committed_at": datetime(2026, 11, 22, tzinfo=UTC),
        "value": value,
        **more,
    }
    announcements(producer).send_dead_letters(SALES, iter([record]))
    [(_, key, _, sent, headers)] = producer.sent
    return key, sent, headers


def test_conflict_names_its_event_and_lies_under_the_key_of_its_store() -> None:
    key, _, headers = told("{}")

    assert (key, headers["message"]) == (
        b"367",
        b"pos:367:1:0:42 came before with another content; the first by offset counts",
    )


@pytest.mark.parametrize(
    "event_id",
    [
        f"pos:367:ann@example.org:0:{'7' * 5_000}",
        f"pos:367:1:{'x' * 380}:4111 1111 1111 1111",
        f"wifi:367:{'x' * 5_000}:aa:bb:cc:dd:ee:ff",
        "pos:367:ann@example.org:0:\ud800",
    ],
)
def test_long_and_personal_identity_of_a_conflict_is_blacked_out_and_then_cut(
    event_id: str,
) -> None:
    _, _, headers = told("{}", event_id=event_id)

    message = headers["message"].decode()
    assert len(message) <= 500 and message.endswith(" the first by offset counts")
    assert not [part for part in ("ann@", "4111", "aa:bb") if part in message]


def test_key_of_a_letter_is_blacked_out_and_cut_as_its_value_is() -> None:
    key, value, _ = told("ann@example.org", store_id="ann@example.org " + "x" * 5_000)

    assert key is not None and len(key) <= 1_000 and key.startswith(b"[redacted] xxx")
    assert value == b"[redacted]"
