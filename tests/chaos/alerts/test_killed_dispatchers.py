"""Dispatchers killed at each moment of a delivery again and again (`--kills 20` at each), and each
wrong one found in the same towns."""

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from tally.config.settings import Settings
from tests.controls.alerts.dispatchers import WRONG_PARTS
from tests.integration.alerting.deliver.killing import ALL_FAILPOINTS, ordeal
from tests.integration.alerting.deliver.test_dispatcher import SEED, TOWNS, all_survived, counted

# What each wrong one makes of a receiver.
FOUND = {
    "intent=after": "the retraction is missing",
    "silence=all": "the retraction is missing",
    "doubt=unsent": "the retraction is missing",
    "order=any": "out of order",
    "order=alert": "an end without its raise",
    "ends=alone": "an end without its raise",
    "webhook=attempt": "under several keys",
}
KILLS_OF_A_TOWN = 2
# Where a kill lands within a delivery is chance: one town of six kills may miss what is wrong.
MAX_WRONG_TOWNS = 3
# A silence begins before every second of them.
WRONG_KILLS = ("before_commit", "in_call", "after_offsets", "answered", "before_offsets", "decided")


def test_killed_again_and_again_at_each_moment_a_receiver_is_told_what_is_promised(
    kafka: str, settings: Settings, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    each = int(request.config.getoption("--kills"))
    kills = [moment for moment in ALL_FAILPOINTS for _ in range(each)]
    Random(SEED).shuffle(kills)

    # Three days pass in a town within a minute and a half: what was begun there has to end by then.
    towns = all_survived(settings, tmp_path, kills, -(-len(kills) // KILLS_OF_A_TOWN))

    fired = counted(towns)
    assert {moment: fired[f"killed {moment}"] for moment in ALL_FAILPOINTS} == Counter(kills)
    assert fired["given up"] == 0
    assert [breach for one in towns for breach in one.witness.breaches()] == []


@pytest.fixture(scope="module")
def found(
    kafka: str, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Sequence[str]]:
    """The promises that each wrong dispatcher broke in its last town."""
    folder = tmp_path_factory.mktemp("wrong")

    def break_promises(wrong: str, seed: int) -> Sequence[str]:
        with ordeal(settings, folder / f"{wrong}-{seed}", seed, wrong) as town:
            for moment in WRONG_KILLS:
                town.killed(moment)
            town.finish()
            return town.witness().breaches()

    def find(wrong: str) -> Sequence[str]:
        breaches: Sequence[str] = []
        for seed in range(SEED, SEED + MAX_WRONG_TOWNS):
            breaches = break_promises(wrong, seed)
            if any(line.startswith(FOUND[wrong]) for line in breaches):
                break
        return breaches

    with ThreadPoolExecutor(TOWNS) as pool:
        return dict(zip(WRONG_PARTS, pool.map(find, WRONG_PARTS), strict=True))


@pytest.mark.parametrize("wrong", WRONG_PARTS)
def test_a_wrong_dispatcher_is_found(found: Mapping[str, Sequence[str]], wrong: str) -> None:
    words = Counter(line.split(",")[0].split(":")[0] for line in found[wrong])
    print(f"{wrong}: {dict(words)}")

    assert [line for line in found[wrong] if line.startswith(FOUND[wrong])]
