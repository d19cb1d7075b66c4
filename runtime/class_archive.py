"""An archive of Spark's classes as a JVM has them after reading and checking them: each later JVM begins with it (ADR 006).

Made once by `make setup` (ops/stack/archived.py). It is of one Java and of these very jars: of others it is another file, which is
not there, and then a JVM reads its classes from the jars.
"""

import hashlib
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from runtime.forkless import classes_jar


def making(file: Path) -> str:
    """The option of a JVM of Spark that writes the archive as it ends."""
    return _quoted(f"-XX:ArchiveClassesAtExit={file}")


def archive_file(cache: Path) -> Path | None:
    """Where the archive lies if it has been made: in this Python's environment, like the jars. None if no Java is found."""
    modules = _java_modules()
    if modules is None:
        return None
    parts = [modules, classes_jar(cache), *sorted(_spark_jars().glob("*.jar"))]
    # What the JVM itself compares before it takes an archive.
    told = [f"{part} {part.stat().st_size} {part.stat().st_mtime_ns}" for part in parts if part.exists()]
    digest = hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "tally" / f"spark-{digest}.jsa"


def archive_options(cache: Path) -> str:
    """The option of a JVM that begins with the archive; empty when there is none."""
    file = archive_file(cache)
    return _quoted(f"-XX:SharedArchiveFile={file}") if file is not None and file.is_file() else ""


def _quoted(option: str) -> str:
    # A clone may lie in a folder with a blank in its name, at which Spark would part the option.
    return f'"{option}"'


def _java_modules() -> Path | None:
    # As PySpark looks for Java.
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    modules = Path(found).resolve().parents[1] / "lib" / "modules" if found else None
    return modules if modules and modules.is_file() else None


def _spark_jars() -> Path:
    spec = find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (Path(spec.origin).parent if spec and spec.origin else "")
    return Path(home) / "jars"
