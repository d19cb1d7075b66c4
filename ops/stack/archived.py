"""The archive of Spark's classes (runtime/class_archive.py), made once by a session of its own (ops/stack/sample_session.py)."""

import subprocess
import sys
import tempfile
from pathlib import Path

from ops.cli.output import note
from runtime.class_archive import archive_file

SESSION = "ops.stack.sample_session"
SECONDS = 300


def make_archive(cache: Path) -> None:
    """The archive in its place, unless it is there. A JVM that cannot make one is no error: Spark then starts as without."""
    final = archive_file(cache)
    if final is None or final.is_file():
        return
    note("JVM parts: an archive of Spark's classes, so that each job starts sooner; half a minute, once")
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=final.parent, prefix=".classes.") as arriving:
        made = Path(arriving) / final.name
        command = [sys.executable, "-m", SESSION, str(made)]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if answer.returncode or not made.is_file():
            said = (answer.stderr or answer.stdout).strip()[-500:]
            note(f"JVM parts: no archive of Spark's classes was made, jobs start 2 s later for it ({said})")
            return
        for older in final.parent.glob("spark-*.jsa"):
            older.unlink()
        made.replace(final)
