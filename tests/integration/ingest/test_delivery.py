"""The three guarantees under the same crash, and exactly once under a crash at every step."""

from collections import Counter

import pytest

from ingest.processor import faults
from tally.settings import Settings
from tests.integration.ingest.conftest import KILLED, Start, committed_values, send_values, stop, wait_until_read, wait_until_ready

COPIER = "tests.integration.ingest.copier"
VALUES = [f"v{number:03d}" for number in range(60)]
# Whether a value is missing, and whether one is there twice.
LOSES, REPEATS, NEITHER = (True, False), (False, True), (False, False)


def crash_and_restart(start: Start, settings: Settings, topics: tuple[str, str], fault: str, delivery: str) -> Counter[str]:
    """How often each value was copied by a process killed at the fault and its successor."""
    group = topics[0]
    crashed = start(COPIER, group, *topics, TALLY_FAULT=fault, TALLY_DELIVERY=delivery)
    assert crashed.wait(60) == KILLED, crashed.communicate()
    successor = start(COPIER, group, *topics, TALLY_DELIVERY=delivery)
    wait_until_ready(successor)
    wait_until_read(settings, group, topics[:1])
    assert stop(successor) == 0
    return Counter(committed_values(settings, topics[1]))


@pytest.mark.parametrize(("delivery", "expected"), [("at_most_once", LOSES), ("at_least_once", REPEATS), ("exactly_once", NEITHER)])
def test_same_crash_loses_repeats_or_does_neither(
    start: Start, settings: Settings, topics: tuple[str, str], delivery: str, expected: tuple[bool, bool]
) -> None:
    send_values(settings, topics[0], VALUES)

    copies = crash_and_restart(start, settings, topics, f"{faults.BETWEEN}:1", delivery)

    assert (any(copies[value] == 0 for value in VALUES), any(copies[value] > 1 for value in VALUES)) == expected


@pytest.mark.parametrize("fault", [name for name in faults.NAMES if name != faults.BETWEEN])
def test_exactly_once_survives_a_kill_at_every_step(start: Start, settings: Settings, topics: tuple[str, str], fault: str) -> None:
    send_values(settings, topics[0], VALUES)

    copies = crash_and_restart(start, settings, topics, f"{fault}:1", "exactly_once")

    assert copies == Counter(VALUES)
