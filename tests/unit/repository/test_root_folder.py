import os
import subprocess

from tests.unit.architecture.counts.sources import PACKAGES, ROOT

FILES = {
    ".dockerignore",
    ".gitignore",
    ".pre-commit-config.yaml",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "docker-compose.yml",
    "pyproject.toml",
    "uv.lock",
}


def test_the_root_folder_holds_nothing_unexpected() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    entries = {path.split("/")[0] for path in listed.split("\0") if path}

    assert entries - FILES - {*PACKAGES, "docs", ".ci"} == set()


def test_the_continuous_integration_is_one_command_that_anybody_can_run() -> None:
    run = ROOT / ".ci" / "run"

    assert os.access(run, os.X_OK)
    assert subprocess.run(["bash", "-n", run], check=False).returncode == 0
    assert run.read_text("utf-8").endswith("exec .venv/bin/python -m tests.ci\n")
