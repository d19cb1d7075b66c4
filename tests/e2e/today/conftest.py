"""One running loop of the product's sources and of one that it has never heard of."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cassandra.cluster import Session
from pyspark.sql import SparkSession

from batch_layer.views import rebuild as views
from batch_layer.views.publication import RebuildJob
from batch_layer.views.scope import WantedDays
from ops.local.stack import catalogue
from runtime.connect import cassandra_session
from tally.families import Family
from tests.support.gateway_client import GatewayClient
from tests.support.loop import Loop, running_loop

# Everything but the scheduler: a test says itself when it wants a rebuild.
SERVICES = [name for name in catalogue.SERVICES if name != "airflow"]
Rebuild = Callable[..., None]
ELEVENTH = Path(__file__).parents[1] / "eleventh"


@pytest.fixture(scope="package")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    overrides = {"TALLY_SOURCES": str(ELEVENTH)}
    home = tmp_path_factory.mktemp("today")
    with running_loop(home, *SERVICES, overrides=overrides) as running:
        yield running


@pytest.fixture(scope="package")
def session(loop: Loop) -> Iterator[Session]:
    with cassandra_session(loop.settings) as opened:
        yield opened


@pytest.fixture(scope="package")
def rebuild(loop: Loop, session: Session, spark: SparkSession) -> Rebuild:
    """Rebuilds what is dirty of some families, in the worker's Spark: a process of its own for each
    takes four times as long, and what a process adds is seen by the others."""

    def dirty(*families: Family) -> None:
        wanted = WantedDays("dirty")
        views.rebuild(RebuildJob(spark, session, loop.settings, wanted, False, families))

    return dirty


@pytest.fixture(scope="package")
def gateway(loop: Loop) -> Iterator[GatewayClient]:
    client = GatewayClient(loop.settings.gateway)
    yield client
    client.close()
