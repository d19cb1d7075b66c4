"""The three guarantees under the same crash, and exactly once under a crash at every step."""

from collections import Counter
from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka.admin import NewTopic

from runtime.connect import kafka_admin
from runtime.processor.delivery import BETWEEN, FAILPOINTS
from tally.config.settings import Settings
from tests.integration.ingest.conftest import (
    KILLED,
    committed_values,
    send_values,
    starter,
    stop,
    wait_until_read,
    wait_until_ready,
)

COPIER = "tests.integration.ingest.processor.copier"
VALUES = [f"v{number:03d}" for number in range(60)]
# Whether a value is missing, and whether one is there twice.
LOSES, REPEATS, NEITHER = (True, False), (False, True), (False, False)
OTHER_STEPS = tuple(name for name in FAILPOINTS if name != BETWEEN)

Case = tuple[str, str]
CASES: tuple[Case, ...] = (
    *((BETWEEN, delivery) for delivery in ("at_most_once", "at_least_once", "exactly_once")),
    *((fault, "exactly_once") for fault in OTHER_STEPS),
)


@pytest.fixture(scope="module")
def inputs(kafka: str, settings: Settings) -> Iterator[dict[Case, str]]:
    """A new topic with all values for each case; its copy goes to `<topic>-copy`."""
    topics = {case: f"test-{uuid4().hex}" for case in CASES}
    names = [name for topic in topics.values() for name in (topic, f"{topic}-copy")]
    admin = kafka_admin(settings)
    for made in admin.create_topics(
        [NewTopic(name, settings.partitions, 1) for name in names]
    ).values():
        made.result(30)
    for topic in topics.values():
        send_values(settings, topic, VALUES)
    yield topics
    for gone in admin.delete_topics(names).values():
        gone.result(30)


@pytest.fixture(scope="module")
def copies(inputs: dict[Case, str], settings: Settings) -> dict[Case, Counter[str]]:
    """How often each value was copied by a process that was killed and its successor; the cases
    run side by side."""

    def arguments(case: Case) -> tuple[str, ...]:
        return COPIER, inputs[case], inputs[case], f"{inputs[case]}-copy"

    variables = {"TALLY_KAFKA": settings.kafka, "TALLY_KEYSPACE": "test_delivery"}
    with starter(variables) as start:
        crashing = [
            start(*arguments(case), "0", f"{case[0]}:1", TALLY_DELIVERY=case[1]) for case in CASES
        ]
        assert [process.wait(600) for process in crashing] == [KILLED] * len(CASES)
        successors = [start(*arguments(case), TALLY_DELIVERY=case[1]) for case in CASES]
        for process, topic in zip(successors, inputs.values(), strict=True):
            wait_until_ready(process)
            wait_until_read(settings, topic, [topic])
        assert [stop(process) for process in successors] == [0] * len(CASES)
    return {
        case: Counter(committed_values(settings, f"{topic}-copy")) for case, topic in inputs.items()
    }


@pytest.mark.parametrize(
    ("delivery", "expected"),
    [("at_most_once", LOSES), ("at_least_once", REPEATS), ("exactly_once", NEITHER)],
)
def test_same_crash_loses_repeats_or_does_neither(
    copies: dict[Case, Counter[str]], delivery: str, expected: tuple[bool, bool]
) -> None:
    copied = copies[BETWEEN, delivery]

    assert (
        any(copied[value] == 0 for value in VALUES),
        any(copied[value] > 1 for value in VALUES),
    ) == expected


@pytest.mark.parametrize("fault", OTHER_STEPS)
def test_exactly_once_survives_a_kill_at_every_step(
    copies: dict[Case, Counter[str]], fault: str
) -> None:
    assert copies[fault, "exactly_once"] == Counter(VALUES)
