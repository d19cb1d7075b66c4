"""The watcher beside real parts: a broker and a job that are killed come back, and nobody types
anything."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tenacity import retry, retry_if_result, stop_after_delay, wait_fixed

from ops.local.processes.addresses import separate_environment

SERVICES = ("kafka", "normaliser", "gateway")

Tally = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tally]:
    """The command line on a home of this module's own, with the services up."""
    environment = separate_environment(tmp_path_factory.mktemp("watched"), os.environ)

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "ops.cli", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    started = run("up", *SERVICES)
    yield run
    run("down")
    assert started.returncode == 0, started.stderr


def services(tally: Tally) -> dict[str, Any]:
    """Service name to what `status --json` says of it."""
    found: dict[str, Any] = json.loads(tally("status", "--json").stdout)["services"]
    return {name: found[name] for name in SERVICES}


def kill(tally: Tally, name: str) -> int:
    """SIGKILL to the pid that `status` names, which is returned."""
    pid = int(services(tally)[name]["pid"])
    psutil.Process(pid).send_signal(signal.SIGKILL)
    return pid


@retry(
    retry=retry_if_result(lambda done: not done), stop=stop_after_delay(600), wait=wait_fixed(0.5)
)
def all_run_and_none_is(tally: Tally, killed: set[int]) -> bool:
    """Whether every service runs, with a process that was not killed."""
    found = services(tally).values()
    return all(service["state"] == "running" and service["pid"] not in killed for service in found)


def test_killed_job_comes_back(tally: Tally) -> None:
    assert all_run_and_none_is(tally, {kill(tally, "normaliser")})


def test_killed_broker_comes_back_and_those_who_need_it_too(tally: Tally) -> None:
    assert all_run_and_none_is(tally, {kill(tally, "kafka"), kill(tally, "normaliser")})


def test_no_file_of_the_home_is_open_to_others(tally: Tally) -> None:
    home = Path(services(tally)["kafka"]["log"]).parents[1]

    assert [
        path
        for path in [home, *home.rglob("*")]
        if not path.is_symlink() and path.stat().st_mode & 0o077
    ] == []


def test_watcher_ends_with_the_last_service(tally: Tally) -> None:
    home = Path(services(tally)["kafka"]["log"]).parents[1]
    pid = json.loads((home / "run" / "watcher.json").read_text())["pid"]

    tally("down")

    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
