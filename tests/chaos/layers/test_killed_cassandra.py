"""Cassandra killed again and again in the middle of the speed layer's batches: the same totals
as the receipts'."""

import random
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import pytest

from ops.oracle import Scope, window_totals
from speed_layer import views
from tests.support.stack.faults import is_back, pause, strike
from tests.support.stack.loop import Loop, running_loop, wait_until

KILLS, SEED = 4, 4
LAST = date(2017, 2, 28)
MAX_SECONDS_INTO, SETTLED_SECONDS = 0.6, 0.5
LOGS = ("offsets", "commits")
# About half a minute of micro-batches, so that each kill finds one.
MICRO_BATCH_RECORDS = "500"


def unfinished(checkpoint: Path) -> int | None:
    """The micro-batch that has begun and is not committed; None between two."""
    begun, committed = (
        max(
            (int(file.name) for file in (checkpoint / log).iterdir() if file.name.isdigit()),
            default=-1,
        )
        for log in LOGS
    )
    return begun if begun > committed else None


def wait_for_next_batch(loop: Loop) -> None:
    """Return when a micro-batch has ended: the next begins at once."""
    done = len(loop.micro_batches())
    wait_until(lambda: len(loop.micro_batches()) > done, 120, "a micro-batch has ended")


def test_totals_are_those_of_the_receipts(tmp_path_factory: pytest.TempPathFactory) -> None:
    expected, chance, struck = (
        window_totals(Scope(last=LAST)).values(),
        random.Random(SEED),
        list[int | None](),
    )
    with running_loop(
        tmp_path_factory.mktemp("killed"),
        overrides={"TALLY_MICRO_BATCH_RECORDS": MICRO_BATCH_RECORDS},
    ) as loop:
        loop.down("speed")
        loop.replay("--to", (LAST + timedelta(days=1)).isoformat())
        loop.up("speed")
        for _ in range(KILLS):
            pid = loop.pid("cassandra")
            wait_for_next_batch(loop)
            pause(chance.uniform(0, MAX_SECONDS_INTO))
            strike(pid, "SIGKILL")
            # By now whatever needed nothing more of Cassandra is committed.
            pause(SETTLED_SECONDS)
            struck.append(unfinished(loop.settings.checkpoint(views.QUERY)))
            wait_until(partial(is_back, loop, "cassandra", pid), 120, "Cassandra runs again")
        loop.catch_up()
        batches = loop.micro_batches()
        # The rows alone: of a window without a receipt the API claims nothing before the first
        # rebuild.
        found = loop.json("audit", "--days", f"2017-01-01..{LAST}", "--http", "0")

    print(
        f"{len(batches)} micro-batches, killed in the middle of {struck};"
        f" {found['oracle']['windows']:,} windows compared"
    )
    assert sum(batch is not None for batch in struck) >= KILLS // 2
    sums = (sum(cell.receipts for cell in expected), sum(cell.minor for cell in expected))
    assert (found["ok"], found["oracle"]["receipts"], found["oracle"]["minor"]) == (True, *sums)
    assert found["oracle"]["equal"] == found["oracle"]["windows"] > 10_000
