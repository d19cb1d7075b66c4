"""Wrong on purpose: `python -m tests.controls.processes.killed_drop FOLDER` is the shipped drop
that kills itself when the gateway has taken a file, before it files it."""

import os
import signal
import sys
from dataclasses import InitVar, dataclass
from pathlib import Path

from typing_extensions import override

from ingest.senders.drop.folder import DropFolder
from ingest.senders.drop.rounds import FolderUploader
from ingest.senders.gateway_client import connect_gateway
from tally.config.settings import Settings
from tests.controls.guard import refuse_outside_tests


@dataclass(frozen=True)
class KilledFolder(DropFolder):
    """As the shipped one, until something is to be filed."""

    settings: InitVar[Settings]

    def __post_init__(self, settings: Settings) -> None:
        refuse_outside_tests(settings)

    @override
    def archive(self, *_: object) -> Path:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("is dead")


if __name__ == "__main__":
    chosen = Settings.load()
    folder = KilledFolder(Path(sys.argv[1]).resolve(), 0, chosen)
    folder.prepare()
    with connect_gateway(chosen.gateway) as gateway:
        FolderUploader(folder, gateway, chosen.drop_retention_seconds).run_once()
