"""An access point has one name, however the stores file and the messages of a network spell it."""

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from ingest.installation.arrival import Arrival, Rules
from ingest.sources.registry import load_conversion
from runtime.registry.stores import load_stores
from schemas import loader
from tally.config.settings import Settings

AT = datetime(2026, 11, 26, 12, tzinfo=UTC)


@pytest.mark.parametrize("listed", ["0018.0a00.0001", "00180a000001", "ceiling-3"])
@pytest.mark.parametrize("sent", ["0018.0a00.0001", "00:18:0A:00:00:01", "00180A000001"])
def test_records_have_the_name_of_the_stores_file(tmp_path: Path, listed: str, sent: str) -> None:
    file = tmp_path / "stores.yaml"
    file.write_text(f"1: {{access_points: ['{listed}']}}", "utf-8")
    message = {
        "store_id": "1",
        "ap_id": sent if listed != "ceiling-3" else listed,
        "happened_at": AT.isoformat(),
        "device_hash": "0" * 32,
        "mac_class": "fixed",
        "rssi_dbm": -60,
    }
    rules = Rules.from_settings(Settings(home=tmp_path, stores_file=file))

    event = load_conversion(loader.builtin_sources()["wifi"])(
        json.dumps(message).encode(), Arrival(AT, 0, 0), rules
    )

    (name,) = load_stores(file)["1"].access_points
    assert msgspec.to_builtins(event)["ap_id"] == name
