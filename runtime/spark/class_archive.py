"""Class-data archives: a JVM's classes as they are after reading and checking (ADR 006).

`make setup` makes them once (ops/local/setup/jvm_classes.py), and each later JVM starts from one.
An archive belongs to one Java and to exactly these jars: for others the file name differs, the file
does not exist, and a JVM reads its classes from the jars.
"""

import hashlib
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from runtime.spark.forkless import classes_jar

SPARK = "spark"


def creation_option(file: Path) -> str:
    """The JVM option that writes the archive when the JVM ends."""
    return f"-XX:ArchiveClassesAtExit={file}"


def archive_file(cache: Path, part: str = SPARK) -> Path | None:
    """The path of a part's archive in this Python's environment; the file may not exist.

    A part is spark, kafka or cassandra. None if no Java is found.
    """
    modules = _java_modules()
    if modules is None:
        return None
    files = [modules, *_jars(cache, part)]
    # The JVM compares the same attributes before it accepts an archive.
    identities = [
        f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files if file.exists()
    ]
    digest = hashlib.sha256("\n".join(identities).encode()).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "tally" / f"{part}-{digest}.jsa"


def archive_options(cache: Path, part: str = SPARK) -> tuple[str, ...]:
    """The JVM option that uses the archive of a part; empty when there is no archive."""
    file = archive_file(cache, part)
    return (f"-XX:SharedArchiveFile={file}",) if file is not None and file.is_file() else ()


def _jars(cache: Path, part: str) -> list[Path]:
    if part == SPARK:
        return [classes_jar(cache), *sorted(spark_jars().glob("*.jar"))]
    return sorted((cache / "jars" / part).glob("*.jar"))


def _java_modules() -> Path | None:
    # The lookup is that of PySpark.
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    modules = Path(found).resolve().parents[1] / "lib" / "modules" if found else None
    return modules if modules and modules.is_file() else None


def spark_jars() -> Path:
    """The folder of the jars that PySpark ships, found without a slow import of PySpark."""
    spec = find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (
        Path(spec.origin).parent if spec and spec.origin else ""
    )
    return Path(home) / "jars"
