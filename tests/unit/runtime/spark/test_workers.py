"""The Pythons that Spark starts."""

import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

from runtime.spark.session import STARTUP
from runtime.spark.workers import PRELOADED_MODULES

ASKS = "import sys; from pathlib import Path; import pyspark; "


def told(path: str, code: str) -> str:
    """What a Python with this search path prints."""
    done = subprocess.run(
        [sys.executable, "-c", ASKS + code],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_archives_leave_the_search_path_and_what_is_installed_is_found(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "pyspark.zip", "w") as archive:
        archive.writestr("pyspark/__init__.py", "raise ImportError('of the archive')")

    path = told(
        f"{tmp_path / 'pyspark.zip'}:{STARTUP}",
        "print([entry for entry in sys.path if Path(entry).is_file()], pyspark.__file__)",
    )

    installed = find_spec("pyspark")
    assert installed is not None and path == f"[] {installed.origin}"


def test_what_is_imported_once_is_there() -> None:
    assert [module for module in PRELOADED_MODULES if find_spec(module) is None] == []
