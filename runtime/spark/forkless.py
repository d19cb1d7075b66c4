"""Hadoop's local file system without a child process for each file (ADR 004).

This module has the path of its classes, and Spark's settings to use them.

`make setup` compiles them from forkless.scala (ops/local/setup/jvm_classes.py), once for each
version of that source.
"""

import hashlib
from pathlib import Path

from tally.errors import TallyError

SOURCE = Path(__file__).with_suffix(".scala")
PACKAGE = "tally.forkless"


def classes_jar(cache: Path) -> Path:
    """The path of the jar of compiled classes, named by the digest of their source.

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
