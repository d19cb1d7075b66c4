"""A speed query for a test: its own topic and checkpoints, the module's keyspace, the run's
Spark session."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cassandra.cluster import Session
from pyspark.sql import SparkSession

from runtime.connect import cassandra_session
from speed_layer.session import STREAMING
from tally.config.settings import Settings
from tests.integration.speed.query import SpeedQuery


@pytest.fixture(scope="module")
def session(settings: Settings, keyspace: str) -> Iterator[Session]:
    """A session on the module's keyspace."""
    with cassandra_session(settings, keyspace) as opened:
        yield opened


@pytest.fixture(scope="session")
def speed_spark(spark: SparkSession) -> SparkSession:
    """The run's session as the speed layer configures it."""
    for name, value in STREAMING.items():
        spark.conf.set(name, value)
    return spark


@pytest.fixture
def query(
    speed_spark: SparkSession, session: Session, own_settings: Settings, topic: str
) -> SpeedQuery:
    """The sales query on an empty topic."""
    return SpeedQuery(speed_spark, session, own_settings, topic)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder for the checkpoints of a second query."""
    return tmp_path / "elsewhere"
