import os
import subprocess
import sys
from pathlib import Path

from runtime.spark.configuration import SHORT_RUN_JAVA
from tests.integration.speed.query import SpeedQuery

IDENTITIES = 300
ROOT = Path(__file__).parents[3]


def run_on_two_executors(query: SpeedQuery) -> None:
    """The query run by a driver with two executors of one core each."""
    settings = query.settings
    variables = {
        "TALLY_KAFKA": settings.kafka,
        "TALLY_CASSANDRA": settings.cassandra,
        "TALLY_KEYSPACE": settings.keyspace,
        "TALLY_HOME": str(settings.home),
        "TALLY_CACHE": str(settings.cache),
        "TALLY_SPARK_MASTER": "local-cluster[2,1,1024]",
        "TALLY_SPARK_JAVA_OPTIONS": SHORT_RUN_JAVA,
    }
    command = [sys.executable, "-m", "tests.integration.speed.cluster_run", query.topic]
    subprocess.run(command, env={**os.environ, **variables}, cwd=ROOT, check=True, timeout=1_200)


def test_first_by_offset_wins_on_several_executors(query: SpeedQuery) -> None:
    query.send(*(query.sale(number, cents=2) for number in range(IDENTITIES)))
    query.send(*(query.sale(number, cents=500) for number in range(IDENTITIES)))

    run_on_two_executors(query)

    assert query.totals() == [(IDENTITIES, 2 * IDENTITIES)]
