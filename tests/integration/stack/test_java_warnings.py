"""A JVM of Spark that warns, e.g. of a full code cache: the answer of a verb on stdout stays one
JSON document."""

import subprocess
import sys

from runtime.sparkconf import SHORT_RUN_JAVA

# The least that Java takes; it is full while Spark starts.
TOO_SMALL = "-XX:ReservedCodeCacheSize=2560k"
PROGRAM = f"""
from runtime.spark import build_session
from tally.settings import Settings
options = {{"spark_java_options": "{SHORT_RUN_JAVA} {TOO_SMALL}"}}
build_session(Settings.load().model_copy(update=options), "warns")
"""


def test_warnings_of_java_go_to_stderr() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )

    assert "CodeCache is full" in done.stderr
    assert done.stdout == ""
