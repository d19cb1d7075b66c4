"""What a stack writes is its owner's alone, also in a home that an earlier version left open."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ops.local.machine import make_private, owner_only
from ops.local.processes import supervisor
from ops.local.processes.service import Site
from ops.local.services import catalogue
from ops.local.stack import control
from tally.errors import StackError
from tests.unit.stack.conftest import READY, MakeService


def open_to_others(home: Path) -> list[str]:
    """Paths below the home, itself included, that others than their owner may read, write or
    enter."""
    found = [home, *home.rglob("*")]
    return sorted(
        str(path.relative_to(home))
        for path in found
        if not path.is_symlink() and path.stat().st_mode & 0o077
    )


@pytest.fixture(autouse=True)
def generous() -> "object":
    """A user whose files everybody may read, as is usual."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_log_and_files_of_a_service_are_its_owners_alone(site: Site, service: MakeService) -> None:
    job = service(
        script="mkdir $TALLY_HOME/data; echo a receipt > $TALLY_HOME/data/state; " + READY
    )

    control.up(site, [job], print)

    assert open_to_others(site.home / "data") == []
    assert [stat.S_IMODE(path.stat().st_mode) for path in (site.home, site.log("job"))] == [
        0o700,
        0o600,
    ]


def test_home_of_an_earlier_version_is_closed_by_the_next_up(
    site: Site, service: MakeService
) -> None:
    for folder in ("data/airflow", "logs", "run"):
        (site.home / folder).mkdir(parents=True)
    for name in ("data/airflow/airflow.db", "logs/gateway.log", "run/kafka.properties"):
        (site.home / name).write_text("receipts")
    site.home.chmod(0o755)
    left_open = open_to_others(site.home)

    control.up(site, [service()], print)

    assert "data/airflow/airflow.db" in left_open
    assert [
        name
        for name in open_to_others(site.home)
        if name.startswith(("data", "logs", ".")) or "kafka" in name
    ] == []


def test_files_of_others_in_the_same_folder_are_left_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("")
    tmp_path.chmod(0o755)

    make_private(tmp_path)

    assert (tmp_path / "theirs").stat().st_mode & 0o077 == 0o044


def test_what_lies_beyond_a_link_is_left_as_it_is(tmp_path: Path) -> None:
    beyond = tmp_path / "beyond"
    beyond.write_text("")
    home = tmp_path / "home"
    (home / "data").mkdir(parents=True)
    (home / "data" / "link").symlink_to(beyond)

    make_private(home)

    assert beyond.stat().st_mode & 0o077 == 0o044


def test_callers_own_rule_is_as_before() -> None:
    with owner_only():
        pass

    assert os.umask(0o022) == 0o022


def test_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StackError, match=r"file/home: cannot be written .*set TALLY_HOME"):
        make_private(tmp_path / "file" / "home")


def test_a_verb_of_the_command_line_leaves_nothing_open(tmp_path: Path) -> None:
    home = tmp_path / "home"
    command = [sys.executable, "-m", "ops.cli", "status"]

    subprocess.run(
        command,
        env={"TALLY_HOME": str(home), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=False,
    )

    assert home.is_dir() and open_to_others(home) == []


@pytest.mark.parametrize("secret", supervisor.SECRETS)
def test_secret_is_given_to_the_service_that_names_it_alone(
    site: Site, service: MakeService, secret: str
) -> None:
    keyed = Site.from_settings(site.settings, {**site.environment, secret: "hunter2"})
    told, other = service("told", secrets=(secret,)), service("other")
    control.up(keyed, [told, other], print)

    seen = {}
    for job in (told, other):
        process = supervisor.working_process(keyed, job)
        assert process is not None
        seen[job.name] = process.environ().get(secret)

    assert seen == {"told": "hunter2", "other": None}


def test_each_secret_has_a_service_that_is_given_it() -> None:
    named = {name for one in catalogue.SERVICES.values() for name in one.secrets}

    assert named == {*supervisor.SECRETS}
