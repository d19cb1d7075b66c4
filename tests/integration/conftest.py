"""What the tests of several packages stand on."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.conftest import make_site

if TYPE_CHECKING:
    from ops.local.processes.service import Site


@pytest.fixture(scope="module")
def own_broker(own_kafka: str, tmp_path_factory: pytest.TempPathFactory) -> "Site":
    """A stack of the module's own with empty topics, for processes that know their topics by
    fixed names and need no Cassandra."""
    return make_site(tmp_path_factory.mktemp("broker"), TALLY_KAFKA=own_kafka)


@pytest.fixture(scope="module")
def stoppable_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Site"]:
    """A stack whose broker is the module's alone, and may be stopped."""
    from ops.local.services import catalogue
    from ops.local.stack import control

    site = make_site(tmp_path_factory.mktemp("broker"))
    control.up(site, catalogue.select_services(["kafka"]), print)
    yield site
    control.down(site, catalogue.select_services(()), print)
