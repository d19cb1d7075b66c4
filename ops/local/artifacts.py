"""The JVM parts of Tally, kept in the user's cache.

They are fetched by the Ivy that PySpark ships and verified against artifacts.lock.

`python -m ops.local.artifacts` brings what is missing; a broken run is continued, since Ivy
keeps finished downloads. `--record` writes artifacts.lock again after a change of ivy.xml.
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ops.local.machine import check_folder, check_java
from runtime.process.output import Advance, print_note, show_progress
from runtime.spark.configuration import spark_jars
from tally.config.settings import Settings
from tally.errors import StackError, TallyError

IVY_FILE = Path(__file__).with_name("ivy.xml")
LOCK_FILE = Path(__file__).with_name("artifacts.lock")
PARTS = ("kafka", "cassandra", "spark")
ATTEMPTS = 3
COMPLAINTS = ("FAILED", "UNRESOLVED", "Exception", "unable to")
NEEDED_GIGABYTES = 0.5
JAR_NAME = "[artifact]-[revision](-[classifier]).[ext]"


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 when every JVM part is verified in the cache, else 1 with one line on stderr."""
    arguments = argparse.ArgumentParser(prog="artifacts", description=__doc__)
    arguments.add_argument(
        "--record", action="store_true", help="write artifacts.lock from what Ivy resolves now"
    )
    options = arguments.parse_args(argv)
    try:
        fetch_parts(Settings.load().cache.absolute(), record=options.record)
    except TallyError as error:
        print_note(f"setup: {error}")
        return 1
    return 0


def fetch_parts(cache: Path, record: bool = False) -> None:
    """Fetch and verify the missing parts of ivy.xml in <cache>/jars. Raises StackError."""
    if record:
        LOCK_FILE.write_text(_heading())
    # A lock of another ivy.xml would verify jars that are not needed any more.
    elif not LOCK_FILE.read_text().startswith(_heading()):
        raise StackError(
            "ivy.xml is not the one of ops/local/artifacts.lock;"
            " run `python -m ops.local.artifacts --record`"
        )
    locked = read_lock_file()
    missing = [part for part in PARTS if record or not part_is_complete(cache, part)]
    if not missing:
        return
    check_folder(cache, NEEDED_GIGABYTES, "set TALLY_CACHE to another")
    # Java is checked only if something is missing: a second run needs no Java at all.
    java = check_java(os.environ)
    total = sum(len(locked.get(part, {})) for part in missing)
    with _lock_cache(cache) as lock, show_progress("JVM parts", total) as advance:
        # Fetched in parallel, because one Ivy downloads one jar after the other. A lock file is
        # recorded in the order of the parts.
        fetches = [_Fetch(java, cache, lock, part, advance) for part in missing]
        with ThreadPoolExecutor(1 if record else len(missing)) as pool:
            fetched = [
                pool.submit(_fetch_part, fetch, locked.get(fetch.part, {})) for fetch in fetches
            ]
        for future in fetched:
            future.result()
        for part in missing:
            (cache / "jars" / part / ".verified").write_text(_stamp_text(part))
    print_note(f"JVM parts: complete in {cache / 'jars'}")


def part_is_complete(cache: Path, part: str) -> bool:
    """Whether the jars of a part were verified against the current lock, and all still exist."""
    stamp = cache / "jars" / part / ".verified"
    names = read_lock_file().get(part, {})
    return (
        stamp.is_file()
        and stamp.read_text() == _stamp_text(part)
        and all((stamp.parent / name).is_file() for name in names)
    )


def read_lock_file() -> dict[str, dict[str, str]]:
    """The SHA-256 by jar name of each part, from artifacts.lock."""
    jars: dict[str, dict[str, str]] = {}
    for line in LOCK_FILE.read_text().splitlines():
        if not line.startswith("#"):
            digest, path = line.split()
            part, name = path.split("/")
            jars.setdefault(part, {})[name] = digest
    return jars


def hashes(folder: Path) -> dict[str, str]:
    """The SHA-256 of each jar in a folder, by jar name."""
    return {jar.name: _sha256(jar) for jar in folder.glob("*.jar")}


def class_path(cache: Path, part: str) -> str:
    """The class path of all jars of a part. Raises StackError if the set-up has not run."""
    if not part_is_complete(cache, part):
        raise StackError(
            f"the JVM parts of {part} are not in {cache / 'jars' / part}; run `make setup`"
        )
    return str(cache / "jars" / part / "*")


@dataclass(frozen=True)
class _Fetch:
    """The download of one part; `lock` is the file descriptor of the cache's lock."""

    java: str
    cache: Path
    lock: int
    part: str
    advance: Advance

    @property
    def download_folder(self) -> Path:
        return self.cache / "jars" / f".{self.part}.arriving"

    @property
    def ivy(self) -> Path:
        """The folder of this Ivy process: two processes in one folder would conflict."""
        return self.cache / "ivy" / self.part


def _fetch_part(fetch: _Fetch, locked: dict[str, str]) -> None:
    final = fetch.cache / "jars" / fetch.part
    shutil.rmtree(fetch.download_folder, ignore_errors=True)
    advanced = _retrieve(fetch)
    if locked:
        _verify(fetch.download_folder, locked, fetch.cache)
    else:
        found_jars = sorted(hashes(fetch.download_folder).items())
        with LOCK_FILE.open("a") as lock:
            lock.writelines(f"{digest}  {fetch.part}/{name}\n" for name, digest in found_jars)
    # Renamed when complete: an interrupted run leaves only `.arriving`, which is never read.
    shutil.rmtree(final, ignore_errors=True)
    fetch.download_folder.rename(final)
    if found := len(locked) - advanced:
        fetch.advance(found)


def _retrieve(fetch: _Fetch) -> int:
    """Run Ivy; returns the number of downloaded and reported jars, without cached ones."""
    downloaded = 0
    for attempt in range(1, ATTEMPTS + 1):
        complaint = ""
        for line in _ivy_lines(fetch):
            if "[SUCCESSFUL ]" in line:
                downloaded += 1
                fetch.advance(1)
            elif not complaint and any(word in line for word in COMPLAINTS):
                complaint = line.strip()
        if not complaint:
            return downloaded
        if attempt < ATTEMPTS:
            print_note(f"JVM parts of {fetch.part}: {complaint}; trying again")
    raise StackError(
        f"JVM parts of {fetch.part}: {complaint};"
        " check the network, run `make setup` again: what is done is kept"
    )


def _ivy_lines(fetch: _Fetch) -> Iterator[str]:
    """Yield Ivy's output lines while it works; a failure is one more line."""
    jar = next(spark_jars().glob("ivy-*.jar"), None)
    if jar is None:
        raise StackError("PySpark is not installed; run `make setup`")
    command = [fetch.java, f"-Divy.default.ivy.user.dir={fetch.ivy}", "-jar", str(jar)]
    cache, pattern = str(fetch.ivy / "cache"), str(fetch.download_folder / JAR_NAME)
    command += ["-ivy", str(IVY_FILE), "-confs", fetch.part, "-cache", cache]
    command += ["-retrieve", pattern, "-types", "jar", "bundle"]
    # Ivy inherits the lock: if this process is killed, the next run waits until that Ivy has
    # written its files.
    output = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=output, stderr=subprocess.STDOUT, text=True, pass_fds=(fetch.lock,)
    ) as ivy:
        assert ivy.stdout is not None
        yield from ivy.stdout
    if ivy.returncode:
        yield f"FAILED: Ivy ended with {ivy.returncode}"


def _verify(folder: Path, locked: dict[str, str], cache: Path) -> None:
    # Only the lock counts, not the checksums of the download repository: it lists the tested jars.
    found = hashes(folder)
    names = found.keys() | locked.keys()
    wrong = sorted(name for name in names if found.get(name) != locked.get(name))
    if wrong:
        raise StackError(
            f"JVM parts: {', '.join(wrong)} differ from ops/local/artifacts.lock;"
            f" remove {cache / 'ivy'} and run `make setup` again"
        )


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _stamp_text(part: str) -> str:
    jars = sorted(read_lock_file().get(part, {}).items())
    return "".join(f"{digest}  {name}\n" for name, digest in jars)


def _heading() -> str:
    return f"# Recorded from the ivy.xml with SHA-256 {_sha256(IVY_FILE)}\n"


@contextmanager
def _lock_cache(cache: Path) -> Iterator[int]:
    """Hold the cache's lock: two checkouts of one user may be set up at the same time."""
    with (cache / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print_note(f"JVM parts: another set-up fills {cache}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


if __name__ == "__main__":
    sys.exit(main())
