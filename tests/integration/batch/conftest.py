"""A broker with empty topics, the shared Cassandra, a fresh home for each test, and the ingest
as a function."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cassandra.cluster import Session
from pyspark.sql import SparkSession

from batch_layer.master.ingest import start_ingest
from ops.local.processes.service import Site
from runtime.connect import cassandra_session
from tally.config.settings import Settings

Ingest = Callable[..., None]


@pytest.fixture
def batch_settings(own_site: Site, tmp_path: Path) -> Settings:
    return own_site.settings.model_copy(update={"home": tmp_path, "ingest_trigger_seconds": 0.0})


@pytest.fixture
def session(batch_settings: Settings) -> Iterator[Session]:
    with cassandra_session(batch_settings) as opened:
        yield opened


@pytest.fixture
def ingest(spark: SparkSession, session: Session, batch_settings: Settings) -> Ingest:
    """Everything that is committed now, appended; options go to the Kafka source."""

    def run(**options: str) -> None:
        query = start_ingest(spark, session, batch_settings, **options).query
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    return run
