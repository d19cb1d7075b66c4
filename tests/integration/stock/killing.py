"""Stock movements that are killed, one process after the other, and one that stays."""

import subprocess
from collections.abc import Sequence

from tests.integration.ingest.conftest import KILLED, Start, wait_until_read
from tests.integration.stock.warehouse import DOCUMENTS, RECEIPTS, Warehouse

MOVING = "tests.controls.processes.crashing_stock"
MAX_SECONDS = 600


def played(
    warehouse: Warehouse, start: Start, kills: Sequence[str], **variables: str
) -> "subprocess.Popen[str]":
    """The process that stays, once it has read everything that was sent."""
    for kill in kills:
        killed = start(MOVING, warehouse.prefix, kill, **variables)
        assert killed.wait(MAX_SECONDS) == KILLED, f"{kill}: {killed.communicate()[1][-4000:]}"
    last = start(MOVING, warehouse.prefix, **variables)
    topics = [warehouse.prefix + name for name in (DOCUMENTS, RECEIPTS)]
    wait_until_read(warehouse.settings, warehouse.prefix, topics)
    return last
