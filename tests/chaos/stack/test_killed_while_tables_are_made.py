"""Cassandra killed in the middle of the first `up`, as it makes the tables: the next one mends it.

A node reads its schema before its commit log: a table whose making is in the log alone is listed
and not known, and every question about it fails until the node is started once more.
"""

import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import psutil
import pytest

from ops.local.processes import supervisor
from ops.local.processes.service import Site
from ops.local.services import catalogue
from ops.local.stack import control
from runtime.connect import cassandra_session
from schemas import loader
from tally.errors import StackError
from tests.conftest import make_site
from tests.support.stack.faults import pause

SERVICES = catalogue.select_services(["cassandra"])
MIN_KILLS, MAX_KILLS, SEED = 5, 40, 5
# The last is about as long as the making of one table takes.
MAX_SECONDS_BEFORE, LOOK_EVERY_SECONDS, MAX_SECONDS_AFTER = 120, 0.005, 0.05


@contextmanager
def killed_at(site: Site, tables: int, chance: random.Random) -> Iterator[None]:
    """Kills the site's node a moment after its keyspace has so many tables on disk."""

    def kill() -> None:
        end = time.monotonic() + MAX_SECONDS_BEFORE
        while made(site) < tables and time.monotonic() < end:
            pause(LOOK_EVERY_SECONDS)
        record = supervisor.read_service_record(site, SERVICES[0])
        assert record is not None
        pause(chance.uniform(0, MAX_SECONDS_AFTER))
        psutil.Process(record.pid).send_signal(signal.SIGKILL)

    killer = Thread(target=kill)
    killer.start()
    yield
    killer.join()


def made(site: Site) -> int:
    """Tables of the keyspace that have a folder."""
    return len(list((site.home / "data/cassandra/data").glob(f"{site.settings.keyspace}/*")))


def readable(site: Site) -> set[str]:
    """The tables that a question can be asked of."""
    names = {loader.table_name(statement) for statement in loader.table_statements()}
    with cassandra_session(site.settings) as session:
        for name in names:
            session.execute(f"SELECT * FROM {name} LIMIT 1")
    return names


def test_next_up_makes_every_table_known(tmp_path: Path) -> None:
    chance, restarted = random.Random(SEED), list[bool]()
    # Until the log alone has known a table: without that this would have shown nothing.
    while not any(restarted) or len(restarted) < MIN_KILLS:
        assert len(restarted) < MAX_KILLS, "no kill has met a table that the log alone knows"
        site, told = make_site(tmp_path / str(len(restarted))), list[str]()
        with killed_at(site, chance.randrange(2, 15), chance), pytest.raises(StackError):
            control.up(site, SERVICES, print)
        try:
            control.up(site, SERVICES, told.append)
            assert len(readable(site)) == len(loader.table_statements())
        finally:
            control.down(site, SERVICES, print)
        restarted.append(any("restarting (" in line for line in told))

    print(f"killed {len(restarted)} times; restarted once more: {restarted}")
