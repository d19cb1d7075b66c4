"""A micro-batch makes no child process: Hadoop's own local files make one or two for each file
of a checkpoint."""

from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from tests.integration.speed.query import SpeedQuery, last_report

WARM, MICRO_BATCHES = 2, 5
STOCK = {
    "fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.LocalFs",
}


def faults_of_ended_children(spark: SparkSession) -> int:
    """Page faults of all ended child processes of the JVM; hundreds for each, whatever it did."""
    assert spark._jvm is not None
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[8])


def faults_of_micro_batches(query: SpeedQuery) -> int:
    """Page faults of the child processes during the micro-batches of a running query; its start
    asks a Python for the state's shape."""
    faults = []
    with query.running() as running:
        for number in range(WARM + MICRO_BATCHES):
            if number == WARM:
                faults.append(faults_of_ended_children(query.spark))
            query.send(query.sale(number))
            running.processAllAvailable()
        assert last_report(running)["batchId"] >= MICRO_BATCHES
        return faults_of_ended_children(query.spark) - faults[0]


def test_micro_batches_make_no_child_process(query: SpeedQuery) -> None:
    assert faults_of_micro_batches(query) == 0


def test_hadoops_own_file_system_makes_some(query: SpeedQuery) -> None:
    stock = query.spark.newSession()
    for name, value in STOCK.items():
        stock.conf.set(name, value)

    assert faults_of_micro_batches(replace(query, spark=stock)) > MICRO_BATCHES


def test_checkpoint_of_one_file_system_is_read_by_the_other(query: SpeedQuery) -> None:
    stock = query.spark.newSession()
    for name, value in STOCK.items():
        stock.conf.set(name, value)

    replace(query, spark=stock).batches([query.sale(1)], [query.sale(2)])
    query.batches([query.sale(3)])
    replace(query, spark=stock).batches([query.sale(4)])

    assert query.totals() == [(4, 400)]
    assert {file.stat().st_mode & 0o777 for file in (query.checkpoint / "offsets").iterdir()} == {
        0o644
    }
