"""Tally's own JVM classes, and class archives: classes as they are after reading and checking.

The own classes are Hadoop's local file system without a child process for each file (ADR 004).
`make setup` makes both once (ops/local/setup/jvm_classes.py), and each later JVM starts from an
archive (ADR 006). An archive belongs to one Java and to exactly these jars: for others the file
name differs, the file does not exist, and a JVM reads its classes from the jars.
"""

import hashlib
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from tally.errors import TallyError

SOURCE = Path(__file__).with_name("forkless.scala")
PACKAGE = "tally.forkless"
SPARK = "spark"


def classes_jar(cache: Path) -> Path:
    """The path of the jar of own classes, named by the digest of their source.

    The file is complete or does not exist.
    """
    return cache / "jars" / f"forkless-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}.jar"


def forkless_conf(cache: Path) -> dict[str, str]:
    """Spark's settings, by name, that replace the file system of the `file:` scheme.

    Raises TallyError when the set-up has not run.
    """
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
