"""Files that are dropped, the real gateway and normaliser, on a real broker: what is filed as done
is stored, and counts once however often and wherever the drop was killed."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ops.local.processes.probes import is_healthy
from tally.config.settings import Settings
from tests.integration.ingest.conftest import (
    KILLED,
    Start,
    committed_messages,
    starter,
    stop,
    wait_until,
    wait_until_read,
)

if TYPE_CHECKING:
    from ops.local.processes.service import Site

STORES = "367: {tz: Europe/Bratislava, sensors: {accc00000001: {device_id: door-1}}}"
# Exported at 10:04:30 over there: the last of its minutes was not over.
EXPORT = """start,end,in,out
2026-03-02 10:01:00,2026-03-02 10:02:00,3,1
2026-03-02 10:02:00,2026-03-02 10:03:00,many,0
2026-03-02 10:04:00,2026-03-02 10:05:00,1,0
"""
EXPORTED_AT = 1_772_442_270
OPTIONS = ("--settled-seconds", "0", "--json")


@pytest.fixture
def broker(own_broker: "Site") -> Settings:
    return own_broker.settings


@pytest.fixture
def begin(own_broker: "Site", tmp_path: Path) -> Iterator[Start]:
    """Starts processes on the module's own broker; the gateway runs already."""
    (tmp_path / "stores.yaml").write_text(STORES, "utf-8")
    variables = {
        **own_broker.environment,
        "TALLY_KAFKA": own_broker.settings.kafka,
        "TALLY_STORES_FILE": str(tmp_path / "stores.yaml"),
        "TALLY_KEYSPACE": "test_drop",
    }
    with starter(variables) as begin:
        begin("ingest.gateway")
        wait_until(lambda: is_healthy(own_broker.settings.gateway))
        yield begin


def drop(
    begin: Start, root: Path, module: str = "ingest.senders.drop"
) -> tuple[int, dict[str, Any]]:
    process = begin(module, str(root), *OPTIONS)
    out, _ = process.communicate(timeout=600)
    return process.returncode, json.loads(out or "{}")


def interval(minute: int) -> str:
    told = {"store_id": "9", "device_id": "door", "happened_at": f"2026-03-02T10:0{minute}:00Z"}
    return json.dumps({**told, "interval_seconds": 60, "in": minute, "out": 0})


def records(begin: Start, settings: Settings, store_id: str) -> list[tuple[str, int, bool]]:
    """Identity, persons in, and whether it is marked as a copy, once all is normalised."""
    process = begin("ingest.normaliser")
    wait_until_read(settings, "normaliser", ["raw-traffic"])
    assert stop(process) == 0
    found = [json.loads(one.value() or b"") for one in committed_messages(settings, "traffic")]
    return sorted(
        (one["event_id"], one["entries"], one.get("repeat", False))
        for one in found
        if one["store_id"] == store_id
    )


def test_drop_that_is_killed_before_it_files_sends_again_and_nothing_counts_twice(
    begin: Start, broker: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "drop" / "traffic" / "today.ndjson"
    file.parent.mkdir(parents=True)
    # More than one body holds no store more.
    file.write_text("\n".join(interval(minute) for minute in range(5)), "utf-8")

    code, _ = drop(begin, tmp_path / "drop", "tests.controls.processes.killed_drop")
    assert (code, file.exists()) == (KILLED, True)
    code, told = drop(begin, tmp_path / "drop")

    assert (code, told["taken"], told["accepted"], file.exists()) == (0, 1, 5, False)
    found = records(begin, broker, "9")
    ids = [f"traffic:9:door:2026-03-02T10:0{minute}:00.000Z" for minute in range(5)]
    # Both times all of it came, and each second one is known as a copy.
    assert found == [
        (one, minute, is_copy) for minute, one in enumerate(ids) for is_copy in (False, True)
    ]


def test_camera_export_counts_its_minutes_that_were_over_when_it_was_written(
    begin: Start, broker: Settings, tmp_path: Path
) -> None:
    root = tmp_path / "drop"
    file = root / "traffic" / "axis_csv" / "sensor=ACCC00000001" / "monday.csv"
    file.parent.mkdir(parents=True)
    file.write_text(EXPORT, "utf-8")
    os.utime(file, (EXPORTED_AT, EXPORTED_AT))

    code, told = drop(begin, root)

    assert code == 1, told
    counted = {name: told[name] for name in ("taken", "accepted", "rejected", "skipped")}
    assert counted == {"taken": 1, "accepted": 1, "rejected": 1, "skipped": 1}
    (beside,) = root.rglob("monday.csv.rejected.json")
    (line,) = json.loads(beside.read_text("utf-8"))["rejected"]
    assert (line["line"], line["errors"][0]["field"]) == (2, "/in")
    first = "traffic:367:door-1:2026-03-02T09:01:00.000Z"
    assert records(begin, broker, "367") == [(first, 3, False)]
