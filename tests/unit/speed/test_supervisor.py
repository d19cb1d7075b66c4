"""A query that fails is started again while the others go on; one that refuses, or fails again
and again, ends the job."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from runtime.registry.sources import SALES
from speed_layer import driver, supervisor
from speed_layer.progress import Progress
from speed_layer.session import Driver
from speed_layer.supervisor import TRIES, QueryDefinition, QuerySupervisor
from tally.errors import DataLoss, TallyError

FAILURE = "tally.errors.CassandraWriteTimeout: Cassandra: 3 writes"
LOSS = "Some data may have been lost because they are not available in Kafka any more"


class Query:
    """Stands in for a streaming query: ends by itself after so many looks, with this reason."""

    def __init__(self, looks: int, reason: str) -> None:
        self.looks, self.reason = looks, reason

    @property
    def isActive(self) -> bool:
        """Whether it still runs; each question is a look."""
        self.looks -= 1
        return self.looks >= 0

    def exception(self) -> str:
        """Why it has ended."""
        return self.reason

    def stop(self) -> None:
        """It has ended."""
        self.looks = 0


class Planted(QuerySupervisor):
    """A supervisor whose query is a stand-in, made anew by each start."""

    def __init__(self, start: Callable[[int], Query], batches: int) -> None:
        super().__init__(
            cast(Driver, None),
            QueryDefinition("sales", ("sales",), (SALES,), cast(Any, None), lambda settings: 1),
        )
        self.starts, self._make, self._batches = 0, start, batches
        self.start()

    def start(self) -> None:
        """A query whose progress has seen so many micro-batches."""
        self.starts += 1
        self._query = cast(Any, self._make(self.starts))
        self._progress = cast(
            Progress, SimpleNamespace(take=lambda: None, batch=self._batches - 1, position=None)
        )


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once."""
    monkeypatch.setattr(supervisor, "LONGEST_WAIT_SECONDS", 0.0)


def test_query_that_fails_once_is_started_again_while_the_other_goes_on() -> None:
    failing, other = (
        Planted(lambda start: Query(3 if start == 1 else 10**6, FAILURE), 0),
        Planted(lambda start: Query(10**6, ""), 0),
    )

    for _ in range(20):
        failing.check()
        other.check()

    assert (failing.starts, other.starts) == (2, 1)


def test_query_that_fails_again_and_again_without_a_micro_batch_ends_the_job() -> None:
    failing = Planted(lambda start: Query(0, FAILURE), 0)

    with pytest.raises(TallyError, match=r"query sales failed: .*CassandraWriteTimeout"):
        for _ in range(100):
            failing.check()
    assert failing.starts == TRIES + 1


def test_query_that_comes_forward_between_its_failures_goes_on_for_ever() -> None:
    failing = Planted(lambda start: Query(2, FAILURE), 1)

    for _ in range(200):
        failing.check()

    assert failing.starts > 3 * TRIES


def test_query_whose_records_are_gone_is_not_started_again() -> None:
    lost = Planted(lambda start: Query(0, LOSS), 0)

    with pytest.raises(DataLoss):
        lost.check()
    assert lost.starts == 1


def test_start_without_a_broker_counts_as_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Planted(lambda start: Query(0, FAILURE), 0)

    def no_broker() -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    monkeypatch.setattr(failing, "start", no_broker)
    with pytest.raises(TallyError, match="query sales: Kafka: "):
        for _ in range(100):
            failing.check()


def test_dead_jvm_ends_the_job_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    running = Planted(lambda start: Query(10**6, ""), 0)

    def gone() -> None:
        raise ConnectionRefusedError("nobody listens")

    monkeypatch.setattr(running, "check", gone)
    with pytest.raises(TallyError, match="the JVM of the driver has ended"):
        driver.watch([running], cast(Any, SimpleNamespace(beat=lambda: None)), threading.Event())
