"""Bodies in the vendors' own forms, each with the canonical records that it has to become."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from pydantic import SecretStr

from ingest.contract.vendor import SkippedPart, VendorBody
from ingest.installation.arrival import Arrival, Rules
from ingest.sources.registry import event_splitters, load_conversion, load_vendor_formats
from schemas import loader
from tally.config.settings import Settings
from tally.errors import Forbidden, RejectedEvent

FOLDER = Path(__file__).parent / "vendor_bodies"
ARRIVED = datetime(2026, 3, 2, 12, tzinfo=UTC)


def recorded() -> list[Any]:
    return [
        pytest.param(file.stem, told, case, id=f"{file.stem}: {name}")
        for file in sorted(FOLDER.glob("*.yaml"))
        for told in [yaml.safe_load(file.read_text("utf-8"))]
        for name, case in told["cases"].items()
    ]


@pytest.fixture
def rules(told: dict[str, Any], tmp_path: Path) -> Rules:
    file = tmp_path / "stores.yaml"
    file.write_text(told["stores"], "utf-8")
    secrets = SecretStr(json.dumps(told.get("secrets", {})))
    return Rules.from_settings(Settings(home=tmp_path, stores_file=file, vendor_secrets=secrets))


@pytest.mark.parametrize(("form", "told", "case"), recorded())
def test_body_becomes_the_records_written_beside_it(
    form: str, told: dict[str, Any], case: dict[str, Any], rules: Rules
) -> None:
    source = loader.builtin_sources()[told["source"]]
    body = VendorBody(case["body"].encode(), ARRIVED, rules, case.get("parameters", {}))
    records: list[dict[str, Any]] = []
    rejected: dict[str, str] = {}
    skipped: Counter[str] = Counter()
    refused = None
    try:
        for message in load_vendor_formats(source)[form].messages(body):
            if isinstance(message, SkippedPart):
                skipped[message.reason] += 1
                continue
            try:
                event = load_conversion(source)(message, Arrival(ARRIVED, 0, 0), rules)
                split = event_splitters().get(source.name)
                written = split(event) if split else [event]
                records += [msgspec.json.decode(msgspec.json.encode(one)) for one in written]
            except RejectedEvent as error:
                rejected[error.reason] = error.field
    except RejectedEvent as error:
        refused = error.reason
    except Forbidden:
        refused = "forbidden"

    wanted = case.get("records", [])
    shown = [
        {key: record.get(key) for key in want} for record, want in zip(records, wanted, strict=True)
    ]
    assert (shown, rejected, skipped, refused) == (
        wanted,
        case.get("rejected", {}),
        case.get("skipped", {}),
        case.get("refused"),
    )


def test_each_form_of_the_product_has_its_bodies() -> None:
    forms = {
        form for source in loader.builtin_sources().values() for form in load_vendor_formats(source)
    }

    assert forms == {file.stem for file in FOLDER.glob("*.yaml")}


def test_what_a_device_sent_before_it_was_listed_counts_once_it_is_replayed(tmp_path: Path) -> None:
    """Also where its names and its clock are not the usual ones, of which nobody knew then."""
    (source,) = (one for one in loader.builtin_sources().values() if one.name == "traffic")
    pushed = b"""{"logics_data": {"sensor_info": {"serial_number": "S"}, "logics": [
        {"id": 1, "records": [{"from": 1772445600, "to": 1772445660,
         "counts": [{"name": "zu", "value": 5}, {"name": "ab", "value": 2}]}]}]}}"""
    (letter,) = load_vendor_formats(source)["xovis"].messages(
        VendorBody(pushed, ARRIVED, Rules.from_settings(Settings()))
    )
    assert isinstance(letter, bytes)
    with pytest.raises(RejectedEvent, match="no store of the stores file has this serial"):
        load_conversion(source)(letter, Arrival(ARRIVED, 0, 0), Rules.from_settings(Settings()))

    file = tmp_path / "stores.yaml"
    file.write_text("367: {sensors: {'s:1': {clock: unix_s, entries: [zu], exits: [ab]}}}", "utf-8")
    listed = Rules.from_settings(Settings(stores_file=file))
    event = msgspec.to_builtins(load_conversion(source)(letter, Arrival(ARRIVED, 0, 0), listed))

    assert (event["store_id"], event["happened_at"], event["entries"], event["exits"]) == (
        "367",
        "2026-03-02T10:00:00.000Z",
        5,
        2,
    )
