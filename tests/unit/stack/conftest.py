"""Stand-ins: services that are shell scripts, on a site of the test's own."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ops.local.processes.service import Launch, Service, Site
from ops.local.stack import control
from tally.config.settings import Settings

READY = "touch $TALLY_READY_FILE; exec sleep 60"
READY_WITH_CHILD = "sleep 60 & touch $TALLY_READY_FILE; wait"
# The child goes by the name of a JVM; without it the parent lives on for a while, as the Python of
# a Spark driver does.
_JVM = (
    "import os, pathlib, time; pathlib.Path(os.environ['TALLY_READY_FILE']).touch(); time.sleep(60)"
)
READY_WITH_JVM = (
    f'ln -sf {sys.executable} $TALLY_HOME/java; $TALLY_HOME/java -c "{_JVM}" & wait; exec sleep 60'
)

MakeService = Callable[..., Service]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.from_settings(
        Settings(home=tmp_path, cache=tmp_path / "cache"), {"PATH": "/usr/bin:/bin"}
    )


@pytest.fixture
def service(site: Site) -> Iterator[MakeService]:
    """Makes a service that runs a shell script; all are ended after the test."""
    made: list[Service] = []

    def make(
        name: str = "job", script: str = READY, needs: tuple[str, ...] = (), **more: Any
    ) -> Service:
        own: dict[str, Any] = {"stop_seconds": 5.0, "start_seconds": 10.0, **more}
        made.append(
            Service(
                name=name,
                launch=lambda site: Launch(("/bin/sh", "-c", script)),
                is_ready=lambda site: site.run(f"{name}.ready").exists(),
                needs=needs,
                **own,
            )
        )
        return made[-1]

    yield make
    control.down(site, made, print)
