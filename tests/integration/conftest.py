"""What the tests of several packages stand on."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.conftest import make_site

if TYPE_CHECKING:
    from ops.local.processes.service import Site


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Site"]:
    """A broker of the module's own, for processes that know their topics by fixed names."""
    from ops.local.services import catalogue
    from ops.local.stack import control

    site = make_site(tmp_path_factory.mktemp("broker"))
    control.up(site, catalogue.select_services(["kafka"]), print)
    yield site
    control.down(site, catalogue.select_services(()), print)
