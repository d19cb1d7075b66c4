"""What the set-up makes for the JVMs: Tally's own classes, and archives of the usual classes.

`python -m ops.local.setup.jvm_classes` makes what is missing. An archive (ADR 006) is written by
the JVM of a sample as it ends; with PART and FILE, this module runs the sample of one part.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ops.local.machine import java_command
from runtime.process.output import print_note
from runtime.spark.configuration import SOURCE, SPARK, archive_file, classes_jar, spark_jars
from tally.config.settings import Settings
from tally.errors import StackError, TallyError

# Spark and the services are imported in the functions: most runs find everything made already.
if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ops.local.processes.service import Launch, Site

# The longest sample first, because two run in parallel on two cores.
PARTS = (SPARK, "cassandra", "kafka")
COMPILER = "scala.tools.nsc.Main"
SECONDS = 300
# An archive is written while the JVM ends.
STOP_SECONDS = 120.0


def main(arguments: Sequence[str]) -> int:
    """Return 0 when all is there, or an archive failed; else 1, with one line on stderr."""
    if arguments:
        part, file = arguments
        option = f"-XX:ArchiveClassesAtExit={file}"
        if part == SPARK:
            _run_session(option)
        else:
            _run_service(part, option)
        return 0
    try:
        cache = Settings.load().cache.absolute()
        _compile_classes(classes_jar(cache))
    except TallyError as error:
        print_note(f"setup: {error}")
        return 1
    # The own classes come first: they are in the archive of Spark, whose name depends on them.
    files = {part: archive_file(cache, part) for part in PARTS}
    needed = {part: file for part, file in files.items() if file}
    missing = {part: file for part, file in needed.items() if not file.is_file()}
    if missing:
        print_note(
            f"JVM parts: an archive of the classes of {', '.join(missing)},"
            " so that each starts sooner; half a minute, once"
        )
        with ThreadPoolExecutor(2) as pool:
            # The results are consumed, so that an exception is raised here.
            list(pool.map(_make_archive, missing, missing.values()))
    return 0


def _compile_classes(final: Path) -> None:
    """Compile forkless.scala into its jar by the compiler that Spark ships, without a JDK."""
    if final.is_file():
        return
    print_note(f"JVM parts: compiling {SOURCE.name}")
    scala = [java_command(os.environ), "-cp", str(spark_jars() / "*"), COMPILER, "-usejavacp"]
    scala += ["-deprecation", "-Werror", str(SOURCE), "-d"]
    complaint = _make(final, scala)
    if complaint is not None:
        raise StackError(
            f"JVM parts: {SOURCE} was not compiled ({complaint}); run `make setup` again"
        )


def _make_archive(part: str, final: Path) -> None:
    complaint = _make(final, [sys.executable, "-m", "ops.local.setup.jvm_classes", part])
    if complaint is not None:
        print_note(
            f"JVM parts: no archive of the classes of {part} was made,"
            f" it starts seconds later for it ({complaint})"
        )
        return
    for older in final.parent.glob(f"{part}-*.jsa"):
        if older != final:
            older.unlink()


def _make(final: Path, command: Sequence[str]) -> str | None:
    """Run the command, which writes its last argument; returns the end of its output if not."""
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=final.parent, prefix=f".{final.stem}.") as arriving:
        file = Path(arriving) / final.name
        argv = [*command, str(file)]
        answer = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False)
        if answer.returncode or not file.is_file():
            return (answer.stdout + answer.stderr).strip()[-500:]
        # The files of a sample are readable by their owner only; classes are no personal data.
        file.chmod(0o644)
        # Another checkout may have made the file meanwhile, of the same content.
        file.replace(final)
    return None


def _run_service(name: str, option: str) -> None:
    from ops.local.processes.addresses import separate_environment, settings_with_addresses
    from ops.local.processes.service import Site
    from ops.local.services.catalogue import SERVICES
    from ops.local.stack import control

    service = SERVICES[name]

    def launch(site: "Site") -> "Launch":
        found = service.launch(site)
        java, *others = found.argv
        return replace(found, argv=(java, option, *others))

    with tempfile.TemporaryDirectory() as folder:
        environment = separate_environment(Path(folder), os.environ)
        site = Site.from_settings(settings_with_addresses(environment), environment)
        sampled = [replace(service, launch=launch, stop_seconds=STOP_SECONDS)]
        control.up(site, sampled, print_note)
        control.down(site, sampled, print_note)


def _run_session(option: str) -> None:
    """Run a session with a sample of what jobs do with Spark, until its JVM has ended."""
    from runtime.spark.configuration import FIRST_COMPILER
    from runtime.spark.session import build_session

    with tempfile.TemporaryDirectory() as folder:
        update = {
            "home": Path(folder),
            "spark_master": "local[2]",
            "spark_memory": "1g",
            "spark_java_options": f'{FIRST_COMPILER} "{option}"',
        }
        spark = build_session(Settings.load().model_copy(update=update), "classes")
        _use(spark, Path(folder))
        gateway = spark.sparkContext._gateway
        spark.stop()
        assert gateway is not None
        gateway.shutdown()
        # The JVM of PySpark ends when its standard input closes.
        gateway.proc.stdin.close()
        gateway.proc.wait()


def _use(spark: "SparkSession", folder: Path) -> None:
    from pyspark.sql import functions as F

    table = str(folder / "table")
    rows = spark.range(1000).selectExpr("id", "id % 10 AS key", "CAST(id AS string) AS text")
    rows.write.format("delta").partitionBy("key").save(table)
    stored = spark.read.format("delta").load(table)
    by_key = stored.dropDuplicates(["id"]).groupBy("key")
    texts = F.countDistinct("text"), F.collect_list("text")
    sums = by_key.agg(F.sum("id"), *texts)
    keys = F.broadcast(sums.select("key"))
    joined = stored.join(sums, on="key").join(keys, on="key", how="left_semi")
    joined.repartition(2).collect()
    passed = stored.mapInArrow(lambda batches: batches, "id bigint, key bigint, text string")
    passed.persist().count()
    # A stream from the Delta table: no broker runs while the set-up makes archives.
    counts = spark.readStream.format("delta").load(table).groupBy("key").count()
    stream = counts.writeStream.format("noop").outputMode("update")
    query = stream.option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
