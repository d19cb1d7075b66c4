"""A folder of dropped files, and what is done with them, for the tests of both sides."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ingest.senders.drop.folder import DropFolder
from ingest.senders.drop.rounds import FolderUploader
from ingest.senders.gateway_client import connect_gateway
from tests.unit.ingest.drop.drop_server import Answer, Answering, Request, answering

DAY = 86_400
AT = 1_772_452_800  # 2026-03-02T12:00:00Z


def dropped(root: Path, name: str, content: bytes = b"x", modified_at: float = AT) -> Path:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    os.utime(file, (modified_at, modified_at))
    return file


@contextmanager
def handing_over(
    root: Path, answer: Answering, settled_seconds: float = 0, patience_seconds: float = 0.2
) -> Iterator[tuple[FolderUploader, list[Request]]]:
    folder = DropFolder(root, settled_seconds)
    folder.prepare()
    with (
        answering(answer) as (address, seen),
        connect_gateway(address, patience_seconds) as gateway,
    ):
        yield FolderUploader(folder, gateway, DAY), seen


def handed_over(root: Path, answer: Answering, **options: Any) -> tuple[dict[str, Any], Any]:
    with handing_over(root, answer, **options) as (rounds, seen):
        rounds.run()
        return rounds.summary(), seen


def taken(_request: Request) -> Answer:
    return Answer()


def names(root: Path) -> set[str]:
    """Files below the folder, without the minute in which they were filed."""
    found = [file.relative_to(root) for file in root.rglob("*") if not file.is_dir()]
    is_filed = ("done", "refused")
    return {
        str(Path(one.parts[0], *one.parts[2:]) if one.parts[0] in is_filed else one)
        for one in found
    }


def beside(root: Path, name: str) -> Any:
    (file,) = root.rglob(name)
    return json.loads(file.read_text("utf-8"))
