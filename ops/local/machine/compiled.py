"""Compilation of Tally's own JVM classes by the Scala compiler that Spark ships.

No JDK is needed.
"""

import subprocess
import tempfile
from pathlib import Path

from runtime.process.output import print_note
from runtime.spark.forkless import SOURCE, classes_jar
from tally.errors import StackError

COMPILER = "scala.tools.nsc.Main"
SECONDS = 300


def compile_classes(java: str, spark_jars: Path, cache: Path) -> None:
    """Compile the classes of runtime/forkless into their jar, unless it exists.

    Raises StackError when the compiler fails.
    """
    final = classes_jar(cache)
    if final.is_file():
        return
    print_note(f"JVM parts: compiling {SOURCE.name}")
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=final.parent, prefix=".forkless.") as arriving:
        classes = Path(arriving) / final.name
        command = [
            java,
            "-cp",
            str(spark_jars / "*"),
            COMPILER,
            "-usejavacp",
            "-deprecation",
            "-Werror",
            "-d",
            str(classes),
            str(SOURCE),
        ]
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        if answer.returncode:
            said = (answer.stdout + answer.stderr).strip()[-500:]
            raise StackError(
                f"JVM parts: {SOURCE} was not compiled ({said}); run `make setup` again"
            )
        # Another checkout may have created the jar meanwhile, from the same source.
        classes.replace(final)
