"""What was sent is acknowledged when settle() returns; what was not is an error."""

from typing import Any

import pytest
from confluent_kafka import KafkaError

from runtime.kafka.producer import BlockingProducer
from tally.errors import SendFailed
from tests.support.clients.full_producer import FullProducer

LOST = KafkaError(KafkaError._MSG_TIMED_OUT)


def sender(producer: Any, **options: Any) -> BlockingProducer:
    return BlockingProducer(producer, 60.0, **options)


def send(made: BlockingProducer, *values: bytes) -> None:
    for value in values:
        made.send("sales", value, "367", 2)


@pytest.mark.parametrize("reports_failures_only", [False, True])
def test_full_queue_is_waited_for_and_nothing_is_left_out(reports_failures_only: bool) -> None:
    producer = FullProducer()
    made = sender(producer, reports_failures_only=reports_failures_only)

    send(made, b"a", b"b", b"c")
    made.flush("topic sales", "fix it")

    assert [value for *_, value, _ in producer.sent] == [b"a", b"b", b"c"]


def test_record_goes_with_its_key_partition_and_headers() -> None:
    producer = FullProducer()

    sender(producer).send("sales", b"a", "367", 2, [("reason", b"late")])

    assert producer.sent == [("sales", "367", 2, b"a", {"reason": b"late"})]


def test_records_that_were_refused_or_not_answered_are_counted_with_the_reason() -> None:
    made = sender(FullProducer(LOST, unanswered=1))
    send(made, b"a", b"b", b"c")

    with pytest.raises(
        SendFailed, match=r"^topic sales: 3 records were not sent \(.*timed out\); fix it$"
    ):
        made.flush("topic sales", "fix it")


def test_silence_of_the_brokers_is_an_error_that_says_for_how_long() -> None:
    made = sender(FullProducer(unanswered=2))
    send(made, b"a", b"b")

    with pytest.raises(SendFailed, match=r"2 records were not sent \(no answer in 60 s\)"):
        made.flush("topic sales", "fix it")


def test_failure_is_told_once() -> None:
    producer = FullProducer(LOST)
    made = sender(producer)
    send(made, b"a")
    with pytest.raises(SendFailed):
        made.flush("topic sales", "fix it")

    made.flush("topic sales", "fix it")


def test_who_asks_is_given_each_record_that_was_stored_and_no_other() -> None:
    stored: list[Any] = []
    for error in (None, LOST):
        made = sender(FullProducer(error), stored=stored.append)
        send(made, b"a")
        try:
            made.flush("topic sales", "fix it")
        except SendFailed:
            continue

    assert [value for *_, value, _ in stored] == [b"a"]


def test_without_reports_of_success_no_time_is_spent_on_them() -> None:
    producer = FullProducer()
    polls: list[float] = []
    producer.poll = polls.append  # type: ignore[method-assign, assignment]
    producer._has_room = True

    send(sender(producer, reports_failures_only=True), b"a")

    assert polls == []
