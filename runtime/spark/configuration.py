"""Spark's configuration as data, the same for both layers; own JVM classes and class archives.

The own classes are Hadoop's local file system without a child process for each file (ADR 004).
An archive has classes as they are after reading and checking (ADR 006). `make setup` makes both
once (ops/local/setup/jvm_classes.py). An archive belongs to one Java and to exactly these jars: for
others the file name differs, the file does not exist, and a JVM reads its classes from the jars.
"""

import hashlib
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from tally.config.settings import Settings
from tally.errors import TallyError

SOURCE = Path(__file__).with_name("forkless.scala")
PACKAGE = "tally.forkless"
SPARK = "spark"

# For a JVM of Spark or of the local stack that lives for minutes, the second compiler would cost
# more processor time than the faster code saves. With one compiler Java reserves 48 MB for code; a
# rebuild fills that, and then runs on without a compiler.
FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# The cheapest collector: pauses of Spark delay no reader, and Java's default one begins a marking
# cycle whenever records arrive in arrays that it holds large, in each micro-batch.
LONG_RUN_JAVA = "-XX:+UseParallelGC"
SHORT_RUN_JAVA = f"{FIRST_COMPILER} {LONG_RUN_JAVA}"
# Warnings of Spark's JVM go to stderr: stdout is reserved for the command's answer.
_JAVA_WARNINGS = "-Xlog:disable -Xlog:all=warning:stderr -XX:+DisplayVMOutputToStderr"
_RETAINED = (
    "spark.ui.retainedJobs",
    "spark.ui.retainedStages",
    "spark.ui.retainedTasks",
    "spark.sql.ui.retainedExecutions",
    "spark.sql.streaming.ui.retainedProgressUpdates",
)


def classes_jar(cache: Path) -> Path:
    """The path of the jar of own classes, named by the digest of their source, if it is made."""
    return cache / "jars" / f"forkless-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}.jar"


def forkless_conf(cache: Path) -> dict[str, str]:
    """Spark's settings, by name, that replace the file system of `file:`. Raises TallyError."""
    classes = classes_jar(cache)
    if not classes.is_file():
        raise TallyError(f"no {classes}; run `make setup`")
    return {
        # Not spark.jars: Hadoop searches a file system on the class path that the JVM started with.
        "spark.driver.extraClassPath": str(classes),
        "spark.executor.extraClassPath": str(classes),
        "spark.hadoop.fs.file.impl": f"{PACKAGE}.FileSystem",
        "spark.hadoop.fs.AbstractFileSystem.file.impl": f"{PACKAGE}.Fs",
    }


def archive_options(cache: Path, part: str = SPARK) -> tuple[str, ...]:
    """The JVM option that uses the archive of a part; empty when there is no archive."""
    file = archive_file(cache, part)
    return (f"-XX:SharedArchiveFile={file}",) if file is not None and file.is_file() else ()


def archive_file(cache: Path, part: str = SPARK) -> Path | None:
    """The path of a part's archive in this Python's environment; the file may not exist.

    A part is spark, kafka or cassandra. None if no Java is found.
    """
    # The lookup is that of PySpark.
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    modules = Path(java).resolve().parents[1] / "lib" / "modules" if java else None
    if modules is None or not modules.is_file():
        return None
    folder = spark_jars() if part == SPARK else cache / "jars" / part
    own_jars = [classes_jar(cache)] if part == SPARK else []
    files = [modules, *own_jars, *sorted(folder.glob("*.jar"))]
    # The JVM compares the same attributes before it accepts an archive.
    identities = [
        f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files if file.exists()
    ]
    digest = hashlib.sha256("\n".join(identities).encode()).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "tally" / f"{part}-{digest}.jsa"


def spark_jars() -> Path:
    """The folder of the jars that PySpark ships, found without a slow import of PySpark."""
    spec = find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (
        Path(spec.origin).parent if spec and spec.origin else ""
    )
    return Path(home) / "jars"


def spark_conf(settings: Settings) -> dict[str, str]:
    """Spark settings of every Tally job, by name.

    They set UTC, Delta, the Kafka source and RocksDB state, on loopback unless set otherwise.
    Raises TallyError when the JVM parts are missing.
    """
    folder = settings.cache / "jars" / "spark"
    jars = sorted(str(jar) for jar in folder.glob("*.jar"))
    if not jars:
        raise TallyError(f"no Spark jars in {folder}; run `make setup`")
    return {
        **forkless_conf(settings.cache),
        "spark.master": settings.spark_master,
        "spark.driver.memory": settings.spark_memory,
        "spark.driver.extraJavaOptions": _java_options(settings),
        "spark.executor.extraJavaOptions": _java_options(settings),
        "spark.jars": ",".join(jars),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Retained for the web UI, which is disabled; by default the plans of a thousand
        # executions: a process that runs for months would grow for its first hours (seen: 40 MiB
        # in 20 minutes).
        **dict.fromkeys(_RETAINED, "20"),
        "spark.driver.host": settings.spark_driver_host,
        "spark.driver.bindAddress": settings.spark_driver_host,
        # Spark's default is the machine's zone: days and windows would be in that zone.
        "spark.sql.session.timeZone": "UTC",
        # A checkpoint keeps the number that it began with. Spark's default is 200 partitions, each
        # with its own RocksDB.
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(settings.home.absolute() / "data" / "warehouse"),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # To count its rows RocksDB would read before each put: four times slower.
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
        # In version 1 a late task can overwrite its successor's state (SPARK-49883).
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        "spark.python.daemon.module": "runtime.spark.workers",
        # A rebuild has some 250 generated classes: with Spark's default cache of 100, the next
        # rebuild in the same session compiles all of them again, a sixth of its processor time.
        "spark.sql.codegen.cache.maxEntries": "1000",
        # Two copies of one task would write its files and rows side by side.
        "spark.speculation": "false",
        # Delta replays its log in this many tasks for each new version; the default of 50 is meant
        # for clusters.
        "spark.databricks.delta.snapshotPartitions": "2",
    }


def _java_options(settings: Settings) -> str:
    # Quoted: a clone's folder may have a blank in its name, at which Spark splits options.
    archive = [f'"{option}"' for option in archive_options(settings.cache)]
    return " ".join((_JAVA_WARNINGS, *archive, settings.spark_java_options or LONG_RUN_JAVA))
