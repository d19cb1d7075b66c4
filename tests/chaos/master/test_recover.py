"""Kafka's, Cassandra's and the queries' folders are gone: everything comes back from the master
dataset, which goes on. And a backup of it is restored into an empty home."""

import shutil
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from cassandra.cluster import Session
from deltalake import DeltaTable

from ops.oracle import Scope, window_totals
from runtime.connect import cassandra_session
from tests.support.stack.loop import Loop, running_loop

FIRST, LAST = date(2017, 1, 1), date(2017, 2, 10)
SERVICES = ("normaliser", "speed", "receipts", "master", "api")
DISTURBED = ("--duplicates", "0.02", "--conflicts", "5", "--bad", "7", "--late", "0.01")
COPIES_OF = date(2017, 1, 20)


def span(first: date, last: date) -> tuple[str, ...]:
    return "--from", first.isoformat(), "--to", (last + timedelta(days=1)).isoformat()


def audit(loop: Loop, first: date, last: date) -> dict[str, Any]:
    return loop.json("audit", "--days", f"{first}..{last}", "--http", "200")


def coordinates(loop: Loop) -> list[tuple[str, int, int]]:
    names = ["source", "partition", "offset"]
    rows = DeltaTable(str(loop.settings.master_path)).to_pyarrow_table(columns=names)
    return [tuple(row.values()) for row in rows.to_pylist()]


def raw_receipts(session: Session) -> int:
    return sum(1 for _ in session.execute("SELECT event_id FROM raw_pos_transaction_byday"))


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    with running_loop(tmp_path_factory.mktemp("lost"), *SERVICES) as running:
        running.replay(*span(FIRST, LAST), *DISTURBED)
        running.catch_up()
        running.wait_for_receipts()
        running.json("rebuild", "--full")
        yield running


@pytest.fixture(scope="module")
def backup(loop: Loop, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backup")
    found = loop.json("backup", str(folder / "data"), "--keys", str(folder / "keys"))
    assert found["records"]["sales"] == 0 and found["records"]["dead-letters"] > 0
    return folder


def test_everything_comes_back_and_the_same_master_goes_on(loop: Loop, backup: Path) -> None:
    before = audit(loop, FIRST, LAST)
    with cassandra_session(loop.settings) as session:
        receipts = raw_receipts(session)
    loop.down()
    held = coordinates(loop)
    for name in ("kafka", "cassandra", "checkpoints", "first-copies"):
        shutil.rmtree(loop.home / "data" / name)

    assert loop.run("recover").returncode == 0
    loop.up(*SERVICES)
    loop.catch_up()
    after = audit(loop, FIRST, LAST)
    with cassandra_session(loop.settings) as session:
        assert raw_receipts(session) == receipts > 0
    print(f"{after['oracle']['equal']:,} of {after['oracle']['windows']:,} windows equal")
    assert before["ok"] and after["ok"]
    assert after["oracle"] == before["oracle"] and after["oracle"]["windows"] > 10_000

    new = loop.replay(*span(LAST + timedelta(days=1), LAST + timedelta(days=4)))
    copies = loop.replay(*span(COPIES_OF, COPIES_OF))
    loop.catch_up()
    loop.json("rebuild", "--dirty")
    found = audit(loop, FIRST, LAST + timedelta(days=4))
    now = coordinates(loop)
    sent = new["receipts"] + copies["receipts"]
    print(f"{new['receipts']:,} new receipts, {copies['receipts']:,} copies, {len(now):,} records")
    assert new["receipts"] >= 1_000 and copies["receipts"] >= 100
    assert len(now) == len(held) + sent == len(set(now)) and {*held} <= {*now}
    assert found["ok"]
    # A receipt without a sold line counts none: what counts is what the oracle makes of them.
    expected = window_totals(Scope(last=LAST + timedelta(days=4))).values()
    assert found["oracle"]["receipts"] == sum(cell.receipts for cell in expected)
    assert found["oracle"]["receipts"] > before["oracle"]["receipts"] + 1_000


def test_a_backup_is_restored_into_an_empty_home(
    loop: Loop, backup: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    loop.down()
    restored = Loop(tmp_path_factory.mktemp("restored"), {})
    try:
        done = restored.run("restore", str(backup / "data"), "--keys", str(backup / "keys"))
        assert done.returncode == 0
        restored.up(*SERVICES)
        restored.catch_up()
        found = audit(restored, FIRST, LAST)
        again = restored.run("restore", str(backup / "data"))
    finally:
        restored.run("down")

    print(f"{found['oracle']['equal']:,} of {found['oracle']['windows']:,} windows equal")
    assert found["ok"] and found["oracle"]["equal"] == found["oracle"]["windows"] > 10_000
    # Nothing is restored over a master dataset that is there.
    assert again.returncode == 1
