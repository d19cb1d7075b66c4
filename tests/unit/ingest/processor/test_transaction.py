"""What each error of a transactional call leads to.

The producer is a stand-in that fails as told.
"""

from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from runtime.processor.delivery import ExactlyOnce, Failpoints, classify_error
from runtime.processor.step import Output
from tally.errors import OutcomeUnknown, ProducerFenced, TallyError, TransactionAborted

FENCED = KafkaError(KafkaError._FENCED, "fenced", True)
FATAL = KafkaError(KafkaError.INVALID_TXN_STATE, "state", True)
RETRIABLE = KafkaError(KafkaError._TIMED_OUT, "slow", False, True)
ABORTABLE = KafkaError(KafkaError.ILLEGAL_GENERATION, "group", False, False, True)
OUTPUT = Output("out", b"k", b"v")


class FailingProducer:
    """Raises, call by call, the errors given for the step of that name; records every call."""

    def __init__(self, **errors: list[KafkaError]) -> None:
        self.errors = errors
        self.calls: list[str] = []

    def __getattr__(self, step: str) -> Callable[..., int]:
        def call(*_arguments: Any, **_options: Any) -> int:
            # As the client library does: a transaction is aborted once.
            if step == "abort_transaction" and step in self.calls:
                raise KafkaException(FATAL)
            self.calls.append(step)
            if self.errors.get(step):
                raise KafkaException(self.errors[step].pop(0))
            return 0

        return call


def handing_out(*producers: Any) -> Callable[[], Any]:
    """Makes the given producers, one a call."""
    waiting = iter(producers)
    return lambda: next(waiting)


def transaction(producer: FailingProducer, deadline_seconds: float = 5.0) -> ExactlyOnce:
    made = ExactlyOnce(handing_out(producer), "test", Failpoints(), deadline_seconds)
    made.renew()
    producer.calls.clear()
    return made


def steps(producer: FailingProducer) -> list[str]:
    return [call for call in producer.calls if call not in ("poll", "flush")]


def send(
    producer: FailingProducer,
    deadline_seconds: float = 5.0,
    metadata_now: Callable[[], Any] = object,
) -> None:
    transaction(producer, deadline_seconds).deliver(
        [OUTPUT], [TopicPartition("in", 0, 8)], metadata_now
    )


@pytest.mark.parametrize(
    ("error", "expected"),
    [(FENCED, "fenced"), (FATAL, "fatal"), (RETRIABLE, "retry"), (ABORTABLE, "abort")],
    ids=str,
)
def test_error_has_one_verdict(error: KafkaError, expected: str) -> None:
    assert classify_error(error) == expected


def test_output_goes_before_offsets_and_both_before_the_commit() -> None:
    producer = FailingProducer()
    send(producer)

    assert producer.calls == [
        "begin_transaction",
        "produce",
        "poll",
        "flush",
        "send_offsets_to_transaction",
        "commit_transaction",
    ]


@pytest.mark.parametrize("step", ["begin_transaction", "flush", "commit_transaction"])
def test_retriable_error_repeats_the_same_call(step: str) -> None:
    producer = FailingProducer(**{step: [RETRIABLE, RETRIABLE]})
    send(producer)

    assert producer.calls.count(step) == 3
    assert "abort_transaction" not in steps(producer)


def test_positions_that_are_never_answered_are_not_waited_for_and_the_next_producer_takes_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("runtime.processor.delivery.HANG_SECONDS", 0.1)
    hanging, after = FailingProducer(), FailingProducer()
    never = Event()
    vars(hanging)["send_offsets_to_transaction"] = lambda *_: never.wait(30)
    made = ExactlyOnce(handing_out(hanging, after), "test", Failpoints())
    made.renew()
    with pytest.raises(OutcomeUnknown, match="no answer from Kafka about positions"):
        made.deliver([OUTPUT], [], object)

    made.renew()
    made.deliver([OUTPUT], [], object)

    never.set()
    # Nothing is asked of a producer in which a call hangs.
    assert steps(hanging) == ["init_transactions", "begin_transaction", "produce"]
    assert steps(after) == [
        "init_transactions",
        "begin_transaction",
        "produce",
        "send_offsets_to_transaction",
        "commit_transaction",
    ]


@pytest.mark.parametrize(
    "step",
    ["begin_transaction", "produce", "flush", "send_offsets_to_transaction", "commit_transaction"],
)
def test_fenced_means_exit_without_abort(step: str) -> None:
    producer = FailingProducer(**{step: [FENCED]})

    with pytest.raises(ProducerFenced):
        send(producer)
    assert producer.calls[-1] == step


@pytest.mark.parametrize(
    "step", ["produce", "flush", "send_offsets_to_transaction", "commit_transaction"]
)
def test_fatal_error_means_exit(step: str) -> None:
    with pytest.raises(TallyError, match="start the process again"):
        send(FailingProducer(**{step: [FATAL]}))


@pytest.mark.parametrize(
    "step", ["produce", "flush", "send_offsets_to_transaction", "commit_transaction"]
)
def test_abortable_error_aborts_and_says_so(step: str) -> None:
    producer = FailingProducer(**{step: [ABORTABLE]})

    with pytest.raises(TransactionAborted):
        send(producer)
    assert steps(producer)[-1] == "abort_transaction"


def test_zombie_that_is_fenced_while_aborting_exits() -> None:
    producer = FailingProducer(send_offsets_to_transaction=[ABORTABLE], abort_transaction=[FENCED])

    with pytest.raises(ProducerFenced):
        send(producer)


def test_commit_without_answer_is_an_unknown_outcome_and_is_not_aborted() -> None:
    producer = FailingProducer(commit_transaction=[RETRIABLE])

    with pytest.raises(OutcomeUnknown):
        send(producer, deadline_seconds=0.0)
    assert "abort_transaction" not in steps(producer)


def test_offsets_are_never_sent_twice_in_one_transaction() -> None:
    producer = FailingProducer(send_offsets_to_transaction=[RETRIABLE])

    with pytest.raises(OutcomeUnknown):
        send(producer)
    assert steps(producer)[-1] == "send_offsets_to_transaction"


def test_group_that_changed_before_the_transaction_begins_none() -> None:
    producer = FailingProducer()

    with pytest.raises(TransactionAborted):
        send(producer, metadata_now=changed_after(0))
    assert steps(producer) == []


def test_group_that_changed_while_producing_aborts_before_offsets() -> None:
    producer = FailingProducer()

    with pytest.raises(TransactionAborted):
        send(producer, metadata_now=changed_after(1))
    assert steps(producer) == ["begin_transaction", "produce", "abort_transaction"]


def changed_after(calls: int) -> Callable[[], object]:
    answers = [object()] * calls

    def metadata_now() -> object:
        if not answers:
            raise TransactionAborted("the group has changed")
        return answers.pop()

    return metadata_now


def test_renewed_producer_is_initialised_before_anything_else() -> None:
    producers = [FailingProducer(), FailingProducer()]
    made = ExactlyOnce(handing_out(*producers), "test", Failpoints())
    made.renew()
    made.renew()

    assert [producer.calls for producer in producers] == [
        ["init_transactions", "purge"],
        ["init_transactions"],
    ]
