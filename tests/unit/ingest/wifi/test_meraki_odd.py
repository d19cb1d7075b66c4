"""Bodies of Meraki by when they come, and of access points that move from store to store."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr

from ingest.contract.vendor import SkippedPart, VendorBody
from ingest.installation.arrival import Arrival, Rules
from ingest.sources.wifi.contract import CanonicalSighting, normalise
from ingest.sources.wifi.vendors import meraki
from runtime.registry.stores import load_stores
from tally.config.settings import Settings
from tally.errors import BadSettings, RejectedEvent

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
OLD, NEW = "00:18:0a:00:34:01", "00:18:0a:00:34:03"
# The second access point is listed from a day on alone; the first one moves on that day.
MOVED = f"""
1:
  tz: Europe/Bratislava
  access_points: ["{OLD}"]
  changes: {{2026-03-02: {{access_points: []}}}}
2:
  tz: Europe/London
  access_points: []
  changes: {{2026-03-02: {{access_points: ["{OLD}", "{NEW}"]}}}}
"""


def rules(folder: Path, stores: str) -> Rules:
    file = folder / "stores.yaml"
    file.write_text(stores, "utf-8")
    secrets = SecretStr('{"meraki": {"secret": "s3cret"}}')
    return Rules.from_settings(Settings(home=folder, stores_file=file, vendor_secrets=secrets))


def version_2(access_point: str | None, *heard: tuple[str, Any]) -> bytes:
    """A body as an access point sends it; `heard`: when, and the power on its scale."""
    observations = [
        {
            "clientMac": f"3c:00:00:00:00:{number:02x}",
            "ipv4": None,
            "location": None,
            "manufacturer": "Acme",
            "os": None,
            "seenTime": at,
            "seenEpoch": 0,
            "ssid": None,
            "rssi": power,
        }
        for number, (at, power) in enumerate(heard)
    ]
    data = {"apMac": access_point, "apFloors": [], "apTags": [""], "observations": observations}
    told = {"version": "2.0", "secret": "s3cret", "type": "DevicesSeen", "data": data}
    return json.dumps(told).encode()


def sightings(
    content: bytes, arrived_at: datetime, listed: Rules
) -> Iterator[CanonicalSighting | RejectedEvent | SkippedPart]:
    for one in meraki.messages(VendorBody(content, arrived_at, listed)):
        if isinstance(one, SkippedPart):
            yield one
            continue
        try:
            yield normalise(one, Arrival(arrived_at, 0, 0), listed)
        except RejectedEvent as error:
            yield error


def stores_of(content: bytes, arrived_at: datetime, listed: Rules) -> list[str]:
    """The store of each sighting, or the reason of what is none."""
    return [
        one.store_id if isinstance(one, CanonicalSighting) else one.reason
        for one in sightings(content, arrived_at, listed)
    ]


@pytest.mark.parametrize("late", [0, 0.4, 1, 30, 59, 59.999])
def test_when_within_a_minute_a_body_comes_moves_no_heartbeat(tmp_path: Path, late: float) -> None:
    """Of the minute that still runs nobody knows yet."""
    listed = rules(tmp_path, f'34: {{access_points: ["{OLD}"], networks: [L_34]}}')
    heard = version_2(OLD, ("2026-03-02T11:57:00Z", 36), ("2026-03-02T11:57:00Z", 22))
    data = {"networkId": "L_34", "reportingAps": [{"mac": OLD}], "observations": []}
    of_v3 = {"version": "3.0", "secret": "s3cret", "type": "WiFi", "data": data}

    for content, accepted in ((heard, 3), (json.dumps(of_v3).encode(), 1)):
        found = [*sightings(content, NOON + timedelta(seconds=late), listed)]
        events = [one for one in found if isinstance(one, CanonicalSighting)]
        minutes = [one.happened_at for one in events if one.mac_class == "access_point"]
        assert (len(found), len(events)) == (accepted, accepted)
        assert minutes == ["2026-03-02T11:59:00.000Z"]


@pytest.mark.parametrize(
    ("at", "store"),
    [
        ("2026-03-01T22:59:59Z", "1"),
        # Midnight in Bratislava, and not yet in London.
        ("2026-03-01T23:30:00Z", "1"),
        ("2026-03-02T00:00:00Z", "2"),
    ],
)
def test_an_access_point_is_of_the_store_that_lists_it_on_the_day_of_the_sighting(
    tmp_path: Path, at: str, store: str
) -> None:
    arrived_at = datetime(2026, 3, 2, 0, 1, tzinfo=UTC)

    found = stores_of(version_2(OLD, (at, 30)), arrived_at, rules(tmp_path, MOVED))

    # The heartbeat is of the minute before it came.
    assert found == [store, "2"]


def test_a_body_across_the_move_is_of_both_stores(tmp_path: Path) -> None:
    content = version_2(OLD, ("2026-03-01T23:59:58Z", 30), ("2026-03-02T00:00:02Z", 31))

    found = stores_of(content, datetime(2026, 3, 2, 0, 0, 3, tzinfo=UTC), rules(tmp_path, MOVED))

    assert found == ["1", "2", "1"]


@pytest.mark.parametrize("day", [1, 2])
def test_what_an_access_point_sends_before_any_store_lists_it_is_of_the_first_that_will(
    tmp_path: Path, day: int
) -> None:
    at = NOON.replace(day=day)
    content = version_2(NEW, (f"2026-03-0{day}T11:58:00Z", 30))

    assert stores_of(content, at, rules(tmp_path, MOVED)) == ["2", "2"]


def test_an_access_point_that_is_left_out_is_of_no_store_from_that_day_on(tmp_path: Path) -> None:
    gone = f'1: {{access_points: ["{OLD}"], changes: {{2026-03-02: {{access_points: []}}}}}}'
    content = version_2(OLD, ("2026-03-01T23:59:59Z", 30), ("2026-03-02T00:00:00Z", 30))

    found = stores_of(content, datetime(2026, 3, 2, 0, 1, tzinfo=UTC), rules(tmp_path, gone))

    assert found == ["unknown_sensor", "1"]


@pytest.mark.parametrize(
    "second",
    [
        '{changes: {2026-03-02: {access_points: ["0018.0a00.3401"]}}}',
        '{access_points: ["0018.0a00.3401"], changes: {2026-03-03: {access_points: []}}}',
    ],
)
def test_an_access_point_that_two_stores_list_on_one_day_is_refused(
    tmp_path: Path, second: str
) -> None:
    first = f"1: {{access_points: [x], changes: {{2026-03-02: {{access_points: ['{OLD}']}}}}}}"
    said = (
        r"stores.yaml: store 2: access point 00180a003401 is that of store 1 already on 2026-03-02;"
        " it counts once, for one store: take it out of `access_points` of one of the two, under"
        " `changes` from that day on"
    )

    with pytest.raises(BadSettings, match=said):
        rules(tmp_path, f"{first}\n2: {second}")


def test_that_a_store_has_no_access_point_any_more_is_told(tmp_path: Path) -> None:
    file, again = tmp_path / "stores.yaml", tmp_path / "again.yaml"
    file.write_text(MOVED, "utf-8")
    stores = load_stores(file)

    told = {store_id: entry.to_fields() for store_id, entry in stores.items()}

    again.write_text(yaml.safe_dump(told), "utf-8")
    assert load_stores(again) == stores
    assert told["1"]["changes"] == {"2026-03-02": {"access_points": []}}


@pytest.mark.parametrize(
    ("access_point", "named"), [("00:18:0a:00:34:99", "00180a003499"), (None, "no access point")]
)
def test_an_access_point_of_no_store_is_named_with_where_to_list_it(
    tmp_path: Path, access_point: str | None, named: str
) -> None:
    content = version_2(access_point, ("2026-03-02T11:57:00Z", 36))

    *_, letter = (
        one
        for one in sightings(content, NOON, rules(tmp_path, MOVED))
        if isinstance(one, RejectedEvent)
    )

    assert (letter.reason, letter.field) == ("unknown_sensor", "/access_point")
    assert f"no store of the stores file has the access point '{named}'" in letter.message
    assert "list it under `access_points` of its store" in letter.message


@pytest.mark.parametrize(
    ("power", "shown"),
    [(-59, "-59 above -95 dBm"), (96, "96 above -95 dBm"), ("3c0000000001", "no power")],
)
def test_a_power_of_version_2_that_can_be_none_is_shown_as_it_was_sent(
    tmp_path: Path, power: Any, shown: str
) -> None:
    content = version_2(OLD, ("2026-03-01T11:57:00Z", power))
    arrived_at = NOON - timedelta(days=1)

    letter, heartbeat = sightings(content, arrived_at, rules(tmp_path, MOVED))

    assert isinstance(letter, RejectedEvent) and isinstance(heartbeat, CanonicalSighting)
    assert (letter.field, letter.message.rpartition(", got ")[2]) == ("/rssi_dbm", f"'{shown}'")


@pytest.mark.parametrize("power", [10**12, "1000", -1000])
def test_a_number_that_is_no_power_may_be_an_address_and_is_not_shown(
    tmp_path: Path, power: Any
) -> None:
    content = version_2(OLD, ("2026-03-01T11:57:00Z", power))

    letter, _ = sightings(content, NOON - timedelta(days=1), rules(tmp_path, MOVED))

    assert isinstance(letter, RejectedEvent) and "'no power'" in letter.message
