"""The data of the first release candidate, made by its own code, are upgraded and go on."""

import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

from runtime.process.files import REPOSITORY
from tests.support.stack.loop import Loop

RELEASE, COMMIT = "0.1.0-rc1", "86cf04e5"
SERVICES = ("normaliser", "speed", "receipts", "master", "api")
FIRST, LAST = date(2017, 1, 1), date(2017, 1, 31)


@pytest.fixture(scope="module")
def earlier_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("code") / "tally"
    folder.mkdir()
    archive = subprocess.run(
        ["git", "archive", COMMIT], cwd=REPOSITORY, capture_output=True, check=False
    )
    if archive.returncode:
        pytest.skip(f"this clone does not have the commit {COMMIT} of {RELEASE}")
    subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)
    return folder


class EarlierLoop(Loop):
    """The verbs of the earlier release, run by its own code."""

    def __init__(self, home: Path, code: Path) -> None:
        super().__init__(home, {"PYTHONPATH": str(code)})
        self._code = code

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "ops.cli", *arguments]
        return subprocess.run(
            command,
            env=self.environment,
            cwd=self._code,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )


def span(first: date, last: date) -> tuple[str, ...]:
    return "--from", first.isoformat(), "--to", (last + timedelta(days=1)).isoformat()


def test_earlier_data_are_upgraded_and_go_on(
    earlier_code: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("upgraded")
    earlier, loop = EarlierLoop(home, earlier_code), Loop(home, {})
    days = f"{FIRST}..{LAST}"
    try:
        earlier.up(*SERVICES)
        earlier.replay(*span(FIRST, LAST), "--duplicates", "0.02", "--conflicts", "5")
        earlier.json("rebuild", "--full")
        before = earlier.json("audit", "--days", days, "--http", "200")
        earlier.down()

        refused = loop.run("up", "cassandra")
        said = loop.run("upgrade", "--check").stdout
        assert loop.run("upgrade", "--apply").returncode == 0
        again = loop.run("upgrade", "--check").stdout
        loop.up(*SERVICES)
        loop.catch_up()
        after = loop.json("audit", "--days", days, "--http", "200")
        loop.replay(*span(LAST + timedelta(days=1), LAST + timedelta(days=2)))
        loop.catch_up()
        loop.json("rebuild", "--dirty")
        gone_on = loop.json("audit", "--days", f"{FIRST}..{LAST + timedelta(days=2)}")
    finally:
        loop.run("down")

    print(said, f"{after['oracle']['equal']:,} of {after['oracle']['windows']:,} windows equal")
    assert refused.returncode == 1
    assert "tables: migration 1" in said and "master dataset" in said
    assert again.strip() == "nothing to upgrade"
    assert before["ok"] and after["ok"] and gone_on["ok"]
    assert after["oracle"] == before["oracle"]
    assert gone_on["oracle"]["receipts"] > after["oracle"]["receipts"] > 0
