"""A release's wheel, installed into an empty environment: the demo runs from it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from runtime.process.files import REPOSITORY
from tests.unit.architecture.counts.sources import PACKAGES

UV = Path(sys.executable).with_name("uv")
NO_PRODUCT = {"tests", "bench"}


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """A command's standard output; a failure shows what it said."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TALLY", "PYTHON"))
    }
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from what is committed or about to be, and from nothing else that lies around."""
    source = tmp_path_factory.mktemp("source")
    files = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=REPOSITORY)
    for name in files.splitlines():
        if (REPOSITORY / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((REPOSITORY / name).read_bytes())
    run(UV, "build", "--wheel", "--out-dir", source / "dist", source, cwd=source)
    [built] = (source / "dist").glob("*.whl")
    return built


def test_the_wheel_has_every_file_of_the_product(wheel: Path) -> None:
    tracked = run("git", "ls-files", *PACKAGES, cwd=REPOSITORY).splitlines()
    wanted = {
        name
        for name in tracked
        if name.partition("/")[0] not in NO_PRODUCT and (REPOSITORY / name).is_file()
    }

    found = set(zipfile.ZipFile(wheel).namelist())

    assert wanted - found == set() and len(wanted) > 400
    assert not any(name.startswith(("tests/", "bench/")) for name in found)


def test_the_demo_runs_from_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    environment, empty = tmp_path / "environment", tmp_path / "empty"
    empty.mkdir()
    run(UV, "venv", "--python", sys.executable, environment, cwd=empty)
    locked = tmp_path / "locked.txt"
    export = ("export", "--frozen", "--no-dev", "--no-group", "setup", "--no-emit-project")
    run(UV, *export, "--no-hashes", "--output-file", locked, "--project", REPOSITORY, cwd=empty)
    python = environment / "bin" / "python"
    run(UV, "pip", "install", "--python", python, "-c", locked, wheel, cwd=empty)
    tally = environment / "bin" / "tally"

    where = run(python, "-c", "import ops; print(ops.__file__)", cwd=empty).strip()
    run(tally, "setup", cwd=empty)
    said = run(tally, "demo", "--once", cwd=empty)

    print(said[-2000:])
    assert Path(where).is_relative_to(environment)
    assert "windows equal" in said
    assert {path.name for path in empty.iterdir()} == {".tally"}
