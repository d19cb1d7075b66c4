"""Archives of a JVM's classes as it has them after reading and checking them (ADR 006).

Each later JVM begins with one. Made once by `make setup` (ops/local/stack/archived.py). An archive
is of one Java and of these very jars: of others it is another file, which is not there, and then a
JVM reads its classes from the jars.
"""

import hashlib
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from runtime.forkless import classes_jar

SPARK = "spark"


def making(file: Path) -> str:
    """The option of a JVM that writes the archive as it ends."""
    return f"-XX:ArchiveClassesAtExit={file}"


def archive_file(cache: Path, part: str = SPARK) -> Path | None:
    """Where the archive of a part lies if it has been made: in this Python's environment.

    A part is spark, kafka or cassandra. None if no Java is found.
    """
    modules = _java_modules()
    if modules is None:
        return None
    files = [modules, *_jars(cache, part)]
    # What the JVM itself compares before it takes an archive.
    told = [
        f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files if file.exists()
    ]
    digest = hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "tally" / f"{part}-{digest}.jsa"


def archive_options(cache: Path, part: str = SPARK) -> tuple[str, ...]:
    """The option of a JVM that begins with the archive of a part; none when there is no archive."""
    file = archive_file(cache, part)
    return (f"-XX:SharedArchiveFile={file}",) if file is not None and file.is_file() else ()


def _jars(cache: Path, part: str) -> list[Path]:
    if part == SPARK:
        return [classes_jar(cache), *sorted(_spark_jars().glob("*.jar"))]
    return sorted((cache / "jars" / part).glob("*.jar"))


def _java_modules() -> Path | None:
    # As PySpark looks for Java.
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    modules = Path(found).resolve().parents[1] / "lib" / "modules" if found else None
    return modules if modules and modules.is_file() else None


def _spark_jars() -> Path:
    spec = find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (
        Path(spec.origin).parent if spec and spec.origin else ""
    )
    return Path(home) / "jars"
