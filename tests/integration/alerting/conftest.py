"""A broker of a test's own over empty tables, and processes that work on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.local.processes.service import Site
from runtime.connect import cassandra_session
from tests.conftest import empty_tables, empty_topics, make_site, node_of
from tests.integration.ingest.conftest import Start, starter


@pytest.fixture
def broker(node_site: Site, spare_broker: Site, keyspace: str, tmp_path: Path) -> Site:
    """A stack with empty topics and tables: state and ticks of another test would go on here."""
    empty_topics(spare_broker.settings)
    site = make_site(
        tmp_path / "own",
        **node_of(node_site),
        TALLY_KEYSPACE=keyspace,
        TALLY_KAFKA=spare_broker.settings.kafka,
    )
    with cassandra_session(site.settings) as session:
        empty_tables(session)
    return site


@pytest.fixture
def begin(broker: Site) -> Iterator[Start]:
    """Starts processes on it, with ticks in quick succession."""
    own = {**broker.environment, "TALLY_KAFKA": broker.settings.kafka, "TALLY_TICK_SECONDS": "0.5"}
    with starter(own) as begin:
        yield begin
