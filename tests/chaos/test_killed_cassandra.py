"""Cassandra killed again and again in the middle of the speed layer's batches: the same totals as the receipts'."""

import random
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from ops.oracle.complete_journey import Scope, window_totals
from tests.faults import is_back, pause, strike
from tests.loop import Loop, running_loop, wait_until

KILLS, SEED = 4, 4
LAST = date(2017, 2, 28)
MOST_SECONDS_INTO = 0.6
# About half a minute of micro-batches, so that each kill finds one.
MICRO_BATCH_RECORDS = "500"


def struck(batch: dict[str, Any], kills: list[datetime]) -> bool:
    """Whether a kill fell between the beginning and the end of the micro-batch."""
    begun = datetime.fromisoformat(batch["timestamp"])
    ended = begun + timedelta(milliseconds=batch["duration_ms"]["triggerExecution"])
    return any(begun < kill < ended for kill in kills)


def wait_for_next_batch(loop: Loop) -> None:
    """Return when a micro-batch has ended: the next begins at once."""
    done = len(loop.micro_batches())
    wait_until(lambda: len(loop.micro_batches()) > done, 120, "a micro-batch has ended")


def test_totals_are_those_of_the_receipts(tmp_path_factory: pytest.TempPathFactory) -> None:
    expected, chance, kills = window_totals(Scope(last=LAST)).values(), random.Random(SEED), list[datetime]()
    with running_loop(tmp_path_factory.mktemp("killed"), overrides={"TALLY_MICRO_BATCH_RECORDS": MICRO_BATCH_RECORDS}) as loop:
        loop.down("speed")
        loop.replay("--to", (LAST + timedelta(days=1)).isoformat())
        loop.up("speed")
        for _ in range(KILLS):
            pid = loop.pid("cassandra")
            wait_for_next_batch(loop)
            pause(chance.uniform(0, MOST_SECONDS_INTO))
            strike(pid, "SIGKILL")
            kills.append(datetime.now(UTC))
            wait_until(partial(is_back, loop, "cassandra", pid), 120, "Cassandra runs again")
        loop.catch_up()
        batches = loop.micro_batches()
        found = loop.json("audit", "--days", f"2017-01-01..{LAST}", "--http", "100")

    hit = [batch["batch_id"] for batch in batches if struck(batch, kills)]
    print(f"{len(batches)} micro-batches, killed in the middle of {hit}; {found['oracle']['windows']:,} windows compared")
    assert len(hit) >= KILLS // 2
    sums = (sum(cell.receipts for cell in expected), sum(cell.minor for cell in expected))
    assert (found["ok"], found["oracle"]["receipts"], found["oracle"]["minor"]) == (True, *sums)
    assert found["oracle"]["equal"] == found["oracle"]["windows"] > 10_000
