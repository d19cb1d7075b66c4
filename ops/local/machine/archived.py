"""Creation of the JVMs' class archives (runtime/spark/class_archive.py).

Each is made once, by a sample process that loads the usual classes.
"""

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from runtime.process.output import print_note
from runtime.spark.class_archive import archive_file

# The longest one first, because two are made in parallel on two cores.
SAMPLES: dict[str, tuple[str, ...]] = {
    "spark": ("ops.local.machine.sample_session",),
    "cassandra": ("ops.local.stack.sample_service", "cassandra"),
    "kafka": ("ops.local.stack.sample_service", "kafka"),
}
SECONDS = 300


def make_archives(cache: Path) -> None:
    """Create the archives that are missing.

    A failure is no error: the JVM then starts without an archive.
    """
    files = {part: archive_file(cache, part) for part in SAMPLES}
    missing = {
        part: file for part, file in files.items() if file is not None and not file.is_file()
    }
    if missing:
        print_note(
            f"JVM parts: an archive of the classes of {', '.join(missing)},"
            " so that each starts sooner; half a minute, once"
        )
        with ThreadPoolExecutor(2) as pool:
            # The results are consumed, so that an exception is raised here.
            list(pool.map(_make, missing, missing.values()))


def _make(part: str, final: Path) -> None:
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=final.parent, prefix=f".{part}.") as arriving:
        made = Path(arriving) / final.name
        command = [sys.executable, "-m", *SAMPLES[part], str(made)]
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        if answer.returncode or not made.is_file():
            said = (answer.stderr or answer.stdout).strip()[-500:]
            print_note(
                f"JVM parts: no archive of the classes of {part} was made,"
                f" it starts seconds later for it ({said})"
            )
            return
        for older in final.parent.glob(f"{part}-*.jsa"):
            older.unlink()
        # Other files are readable by their owner only; an archive holds no personal data.
        made.chmod(0o644)
        made.replace(final)
