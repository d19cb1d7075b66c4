"""Tills that correct, void, begin their numbers anew each day and have clocks that are minutes off,
while services and a rebuild are killed: batch equals what happened."""

from collections import Counter
from collections.abc import Iterator
from datetime import date
from random import Random
from typing import Any

import pytest

from ops.local.services import catalogue
from runtime.connect import cassandra_session
from tests.support.oracles.plain_oracle import differences
from tests.support.stack.faults import is_back, pause, strike
from tests.support.stack.loop import Loop, running_loop, wait_until
from tests.support.stack.tables import batch_rows
from tests.support.twin.twin_tills import TillStory

STRUCK = ("normaliser", "speed", "master", "receipts", "normaliser", "master", "cassandra", "kafka")
SERVICES = [name for name in catalogue.SERVICES if name != "airflow"]
BACK_SECONDS = 300.0
# So long a rebuild computes before it is killed.
INTO_A_REBUILD_SECONDS = 8.0
# The time of arrival is that of the story.
KEPT_SECONDS = str(5 * 366 * 86_400)


@pytest.fixture(scope="module")
def story() -> TillStory:
    """Four days around the night on which Europe's clocks are set forward."""
    return TillStory(date(2026, 3, 27), days=4)


@pytest.fixture(scope="module")
def loop(story: TillStory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    """The stack, whose watcher starts again what dies."""
    stores = story.stores_file(tmp_path_factory.mktemp("stores"))
    overrides = {"TALLY_STORES_FILE": str(stores), "TALLY_RAW_RETENTION_SECONDS": KEPT_SECONDS}
    with running_loop(tmp_path_factory.mktemp("tills"), *SERVICES, overrides=overrides) as running:
        yield running


@pytest.fixture(scope="module")
def rebuilt(loop: Loop, story: TillStory) -> dict[str, Any]:
    """Everything sent, with a service killed in the midst of each part, and a rebuild."""
    parts = len(STRUCK) + 1
    struck = Random(story.seed).sample(STRUCK, len(STRUCK))
    for number in range(parts):
        story.send(loop.settings, story.sent[number * len(story.sent) // parts :][: _size(story)])
        if number < len(struck):
            _struck(loop, struck[number])
    loop.catch_up()
    rebuild = loop.start("rebuild", "--full", "--json")
    pause(INTO_A_REBUILD_SECONDS)
    was_running = rebuild.poll() is None
    rebuild.kill()
    rebuild.communicate()
    done = loop.json("rebuild", "--full")
    return {**done, "killed": [*struck, *(["rebuild"] if was_running else [])]}


def _size(story: TillStory) -> int:
    """More than a part: what is sent twice counts once."""
    return len(story.sent) // (len(STRUCK) + 1) + 20


def _struck(loop: Loop, service: str) -> None:
    old = loop.pid(service)
    strike(old, "SIGKILL")
    wait_until(lambda: is_back(loop, service, old), BACK_SECONDS, f"{service} runs again")


def test_batch_equals_what_happened(loop: Loop, story: TillStory, rebuilt: dict[str, Any]) -> None:
    with cassandra_session(loop.settings) as session:
        held = batch_rows(session, "sales")

    lives = [life for _, life in story.lives]
    told = Counter(life.void_form for life in lives if life.voided_at is not None)
    revisions = sum(len(life.versions) - 1 for life in lives)
    print(f"{len(story.sent):,} messages of {len(lives):,} receipts, {revisions:,} corrections,")
    print(f"voids {dict(told)}; killed {rebuilt['killed']}")
    print(f"{len(story.truth):,} cells of {len(next(iter(held.values())))} parts compared")
    assert differences(held, story.truth) == {}
    assert min(told.values()) > 10 and revisions > 50 and "rebuild" in rebuilt["killed"]
    # A planted wrong cell is found.
    cell, parts = next(iter(story.truth.items()))
    wrong = {**story.truth, cell: (parts[0] + 1, *parts[1:])}
    assert list(differences(held, wrong)) == [cell]


def test_nothing_conflicts_nothing_waits_and_the_ledger_adds_up(
    loop: Loop, rebuilt: dict[str, Any]
) -> None:
    audited = loop.json("audit", "--only", "ledger")

    assert audited["ok"] and audited["beside"]["waiting"] == 0
    assert audited["beside"]["tills"] == [] and audited["beside"]["dead_letters"] == {}
