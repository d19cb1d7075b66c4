"""One Cassandra node for a run, however many workers it has: each has keyspaces of its own there.

It is started by the first worker that asks for it, and ended by the process that has started the
workers, after the last of them.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

GIVEN = "TALLY_TEST_STACK_HOME"
HOME = pytest.StashKey[Path]()


def home_of(config: pytest.Config) -> Path:
    """TALLY_HOME of the run's node, the same for each worker; made when it is first asked for."""
    if HOME not in config.stash:
        told = getattr(config, "workerinput", {}).get("node_home") or os.environ.get(GIVEN)
        config.stash[HOME] = Path(told or tempfile.mkdtemp(prefix="tally-node-"))
    return config.stash[HOME]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a worker that begins what is the same for all."""
    node.workerinput["node_home"] = str(home_of(node.config))


# Last: without workers the fixtures of the whole run end here too, and some still ask the node.
@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """The node has ended; after a failure its log is left and named."""
    config = session.config
    if HOME not in config.stash or hasattr(config, "workerinput") or GIVEN in os.environ:
        return
    home = config.stash[HOME]
    if any(home.iterdir()):
        from ops.local.services import catalogue
        from ops.local.stack import control
        from tests.conftest import make_site

        control.down(make_site(home), catalogue.select_services(["cassandra"]), print)
    if exitstatus:
        print(f"\nthe run's Cassandra: {home}")
    else:
        shutil.rmtree(home)
