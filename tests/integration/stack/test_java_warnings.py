"""A JVM of Spark that has something to say itself: the answer of a verb on stdout stays one JSON
document."""

import subprocess
import sys

from runtime.spark.configuration import SHORT_RUN_JAVA

# Java writes to stdout in two ways, its log and its own output. One option for each, which make it
# speak while it starts: a warning that comes of load, e.g. of a full code cache, comes or does not.
LOGS = "-Xlog:gc+phases+cds=warning"
PRINTS = "-XX:+PrintFlagsFinal"
PROGRAM = f"""
from runtime.spark.session import build_session
from tally.config.settings import Settings
options = {{"spark_java_options": "{SHORT_RUN_JAVA} {LOGS} {PRINTS}"}}
build_session(Settings.load().model_copy(update=options), "warns")
"""


def test_what_java_itself_says_goes_to_stderr() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )

    assert "No tag set matches selection" in done.stderr
    assert "TieredStopAtLevel" in done.stderr
    assert done.stdout == ""
