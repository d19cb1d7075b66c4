"""Maintenance of the master, killed at random moments, beside an ingest that is killed too and
beside rebuilds: the master holds each record once, and the audit finds every receipt."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

import lmdb
import pytest
from deltalake import DeltaTable

from batch_layer.master.maintenance import read_live_files
from batch_layer.master.verify import verify
from runtime.connect import cassandra_session
from tests.support.stack.loop import Loop, running_loop, wait_until

SEED, INGEST_KILLS, MOST_RUNS = 49, 6, 60
# Two months in two minutes: a day for each two seconds.
PACE = ("--from", "2017-03-01", "--to", "2017-05-01", "--speed", "44000")
# All but the first and the last day of them.
DAYS = "2017-03-02..2017-04-29"
# Copies of which many lie on other days than the first.
COPIES = ("--seed", "1", "--duplicates", "0.02", "--conflicts", "200")
# Of a run of the maintenance, which takes a few seconds of these.
LATEST_SECONDS = 4.0


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    overrides = {"TALLY_INGEST_TRIGGER_SECONDS": "0.5"}
    with running_loop(tmp_path_factory.mktemp("maintained"), overrides=overrides) as running:
        yield running


class Maintenance:
    """Runs of the maintenance, one after the other; every other one is killed."""

    def __init__(self, loop: Loop, chance: random.Random) -> None:
        self._loop, self._chance = loop, chance
        self.codes: list[int] = []

    def run_until(self, stop: Event) -> None:
        """Run until the event is set."""
        while not stop.is_set() and len(self.codes) < MOST_RUNS:
            self.run(is_killed=len(self.codes) % 2 == 1)

    def run(self, *, is_killed: bool) -> None:
        """One run."""
        command = [sys.executable, "-m", "batch_layer.master.maintenance", "--json"]
        process = subprocess.Popen(
            command, env=self._loop.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        if is_killed:
            time.sleep(self._chance.uniform(0.5, LATEST_SECONDS))
            process.kill()
        process.communicate(timeout=600)
        self.codes.append(process.returncode)


@contextmanager
def maintaining(loop: Loop, chance: random.Random) -> Iterator[Maintenance]:
    """Maintenance under way beside the block."""
    runs, stop = Maintenance(loop, chance), Event()
    thread = Thread(target=runs.run_until, args=[stop])
    thread.start()
    try:
        yield runs
    finally:
        stop.set()
        thread.join()


def rows_of(path: Path, version: int) -> set[tuple[str, int, int]]:
    """The places of all records in a version."""
    columns = ["source", "partition", "offset"]
    rows = DeltaTable(str(path), version=version).to_pyarrow_table(columns=columns).to_pylist()
    return {(row["source"], row["partition"], row["offset"]) for row in rows}


@dataclass(frozen=True)
class Notes:
    """What an ingest has noted: links and days of Cassandra, and the entries of each index."""

    links: set[tuple[Any, ...]]
    days: set[tuple[Any, ...]]
    indexes: dict[str, dict[bytes, bytes]]

    @property
    def sizes(self) -> dict[str, int]:
        """The number of entries of each index."""
        return {family: len(entries) for family, entries in self.indexes.items()}


def read_notes(loop: Loop) -> Notes:
    with cassandra_session(loop.settings) as session:
        links = session.execute("SELECT family, day, partition, offset, header FROM linked_record")
        days = session.execute("SELECT family, day, partition, until FROM master_progress")
        found = {tuple(map(str, row)) for row in links}, {tuple(map(str, row)) for row in days}
    folders = loop.settings.first_copies_path.iterdir()
    return Notes(*found, {folder.name: dict(read_entries(folder)) for folder in folders})


def read_entries(folder: Path) -> Iterator[tuple[bytes, bytes]]:
    with lmdb.open(str(folder), readonly=True, max_dbs=3) as environment:
        for name in (b"members", b"called"):
            with environment.begin(environment.open_db(name, create=False)) as transaction:
                yield from transaction.cursor()


def begin_indexes_again(loop: Loop) -> None:
    """Take the indexes and the links away; the ingest makes them again."""
    loop.down("master")
    shutil.rmtree(loop.settings.first_copies_path)
    with cassandra_session(loop.settings) as session:
        session.execute("TRUNCATE linked_record")
    loop.up("master")


def test_killed_maintenance_beside_a_killed_ingest_loses_and_repeats_nothing(loop: Loop) -> None:
    chance, path = random.Random(SEED), loop.settings.master_path
    replay = loop.start("replay", "--source", "complete-journey", *PACE, *COPIES)
    wait_until(lambda: len(DeltaTable(str(path)).file_uris()) > 20, 180, "some appends")
    pinned = DeltaTable(str(path)).version()
    before = rows_of(path, pinned)
    with maintaining(loop, chance) as maintenance:
        for _ in range(INGEST_KILLS):
            time.sleep(chance.uniform(1, 3 * LATEST_SECONDS))
            os.kill(loop.pid("master"), signal.SIGKILL)
            loop.up("master")
            loop.json("rebuild", "--dirty", "--family", "sales")
        replay.communicate(timeout=1200)
    assert replay.returncode == 0
    loop.catch_up()
    maintenance.run(is_killed=False)
    loop.json("rebuild", "--full")

    found, continued = loop.json("audit", "--days", DAYS), verify(path)
    verified = verify(path, is_full=True)

    live = read_live_files(DeltaTable(str(path)))
    files, oracle = sum(map(len, live.values())), found["oracle"]
    print(
        f"{len(maintenance.codes)} runs of the maintenance, {maintenance.codes.count(-9)} killed,"
        f" {INGEST_KILLS} kills of the ingest; {files} files of {len(live)} source-days;"
        f" {sum(line.rows.number for line in verified.lines):,} records, each once;"
        f" {oracle['equal']:,} of {oracle['windows']:,} windows equal"
    )
    noted = read_notes(loop)
    begin_indexes_again(loop)
    print(f"{len(noted.links):,} links, {len(noted.days):,} days, {noted.sizes} entries")
    assert noted == read_notes(loop), "what killed ingests have noted is what a new index brings"
    assert len(noted.links) > 0
    assert {*maintenance.codes} == {0, -signal.SIGKILL}
    assert (found["ok"], continued.ok, verified.ok) == (True, True, True)
    assert rows_of(path, pinned) == before, "a pinned version stays as it is"
    assert files <= 2 * len(live)
