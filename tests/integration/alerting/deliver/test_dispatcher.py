"""The dispatcher on the real broker: killed at each moment of a delivery, with silences that begin
and end in between, against a receiver that fails half of the calls and half of the answers."""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tally.config.settings import Settings
from tests.controls.alerts.dispatchers import RESTORING
from tests.integration.alerting.deliver.failing_receiver import KILLED_IN_CALL, NOT_TAKEN, TAKEN
from tests.integration.alerting.deliver.killing import ALL_FAILPOINTS, IN_CALL, ordeal
from tests.integration.alerting.deliver.witness import AT_MOST_ONCE, Witness

SEED = 13
# A successor waits six seconds for the partitions of who was killed: meanwhile others have theirs.
TOWNS = 7
FAULTS = (
    *NOT_TAKEN,
    *TAKEN,
    *("silenced", "silenced while it runs", "retracted within a silence", "nobody knows"),
)


class Survived(NamedTuple):
    """What has happened in a town, and how often each fault has fired."""

    witness: Witness
    fired: Counter[str]
    digests: dict[str, bytes]


def survived(settings: Settings, folder: Path, seed: int, kills: Sequence[str]) -> Survived:
    """A town whose dispatchers die at these moments; the last one is left in peace."""
    with ordeal(settings, folder / f"{seed}", seed) as one:
        for moment in kills:
            one.killed(moment)
        one.finish(slots=1 + (seed == SEED))
        return Survived(one.witness(), one.fired + one.at.fired, one.digests())


def parted(kills: Sequence[str], towns: int) -> list[list[str]]:
    """The moments of each town; none begins with one that needs a state to be restored."""
    by_town = [[*kills[number::towns]] for number in range(towns)]
    return [sorted(one, key=lambda moment: moment == RESTORING) for one in by_town]


def all_survived(
    settings: Settings, folder: Path, kills: Sequence[str], towns: int
) -> list[Survived]:
    """The kills shared out among towns, of which some live at the same time."""
    with ThreadPoolExecutor(TOWNS) as pool:
        running = [
            pool.submit(survived, settings, folder, SEED + number, some)
            for number, some in enumerate(parted(kills, towns))
        ]
        return [one.result() for one in running]


@pytest.fixture(scope="module")
def towns(
    kafka: str, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Survived]]:
    """Each moment once."""
    yield all_survived(settings, tmp_path_factory.mktemp("towns"), ALL_FAILPOINTS, TOWNS)


def counted(towns: Sequence[Survived]) -> Counter[str]:
    """How often each fault has fired in all of them; printed, too."""
    fired = sum((one.fired for one in towns), Counter[str]())
    fired["held until a silence ended"] = sum(len(one.witness.held) for one in towns)
    fired["refused and sent otherwise"] = sum(
        one.witness.refused_and_sent_otherwise for one in towns
    )
    told = sum(len(one.witness.alerts) for one in towns)
    calls = sum(len(one.witness.calls) for one in towns)
    print(f"{told} states of alerts, {calls} calls: {dict(sorted(fired.items()))}")
    return fired


def test_whatever_dies_or_fails_a_receiver_is_told_what_is_promised(towns: list[Survived]) -> None:
    assert [breach for one in towns for breach in one.witness.breaches()] == []


def test_every_moment_and_every_fault_has_come(towns: list[Survived]) -> None:
    fired = counted(towns)

    kills = [f"killed {moment}" for moment in ALL_FAILPOINTS]
    wanted = (*kills, *FAULTS, KILLED_IN_CALL, "held until a silence ended")
    assert [name for name in wanted if not fired[name]] == []
    # Nothing that was told is missing because it was given up.
    assert fired["given up"] == 0


def test_whoever_may_have_a_raise_has_its_retraction(towns: list[Survived]) -> None:
    had, retracted = 0, 0
    for one in towns:
        taken_back = {a.alert_id for a in one.witness.alerts if a.state == "retracted"}
        states = [told for told in one.witness.acted if told.alert_id in taken_back]
        had += len({told.alert_id for told in states})
        retracted += sum(told.state == "retracted" for told in states)

    assert had == retracted > 10


def test_a_channel_at_most_once_is_called_once_whatever_was_answered(
    towns: list[Survived],
) -> None:
    called = [call for one in towns for call in one.witness.calls if call.path == AT_MOST_ONCE]

    # Of each town its own: their alerts have the same ids.
    assert len(called) == sum(
        len({call.key for call in one.witness.calls if call.path == AT_MOST_ONCE}) for one in towns
    )
    assert sum(not call.is_taken for call in called) > 10


def test_each_digest_has_the_bytes_that_were_stored_before(towns: list[Survived]) -> None:
    came = [{call.key: call.body for call in one.witness.calls if call.is_digest} for one in towns]

    # One whose only attempt died before its call never comes.
    assert all(found.items() <= one.digests.items() for found, one in zip(came, towns, strict=True))
    assert sum(map(len, came)) > 10


def test_attempts_of_several_processes_have_one_key_and_the_same_bytes(
    towns: list[Survived],
) -> None:
    again = Counter(
        (number, call.key, call.body)
        for number, one in enumerate(towns)
        for call in one.witness.calls
    )

    assert sum(times > 2 for times in again.values()) > 10


def test_the_process_died_in_a_call_that_had_arrived(towns: list[Survived]) -> None:
    fired = counted(towns)

    assert fired[KILLED_IN_CALL] == fired[f"killed {IN_CALL}"] == 1
