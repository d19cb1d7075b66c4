"""A broker of a test's own over empty tables, and processes that work on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.local.processes.service import Site
from ops.local.services import catalogue
from ops.local.stack import control
from runtime.connect import cassandra_session
from schemas import loader
from tests.conftest import make_site, node_of
from tests.integration.ingest.conftest import Start, starter


@pytest.fixture
def broker(node_site: Site, keyspace: str, tmp_path: Path) -> Iterator[Site]:
    """A broker of the test's own, and empty tables: state and ticks of another would go on here."""
    site = make_site(tmp_path / "own", **node_of(node_site), TALLY_KEYSPACE=keyspace)
    control.up(site, catalogue.select_services(["kafka"]), print)
    with cassandra_session(site.settings) as session:
        for statement in loader.table_statements():
            session.execute(f"TRUNCATE {loader.table_name(statement)}", timeout=60)
    yield site
    control.down(site, catalogue.select_services(()), print)


@pytest.fixture
def begin(broker: Site) -> Iterator[Start]:
    """Starts processes on it, with ticks in quick succession."""
    own = {**broker.environment, "TALLY_KAFKA": broker.settings.kafka, "TALLY_TICK_SECONDS": "0.5"}
    with starter(own) as begin:
        yield begin
