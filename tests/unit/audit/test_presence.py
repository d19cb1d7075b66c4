"""What the audit makes of a master dataset of sightings."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from ops.audit.against_master import CoveredWindows, presence_windows, windows_at_pins
from ops.audit.master import Master
from runtime.registry.sources import FAMILIES
from tally.config.settings import Settings
from tally.families.generation import Generation

WIFI = FAMILIES["wifi"]
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
MIDNIGHT = NOON.replace(hour=0)
QUARTER = timedelta(minutes=15)
Heard = tuple[int, str, str, int]


def opened(home: Path, heard: Sequence[Heard]) -> Master:
    """A master dataset of (minutes after noon, device, class, dBm), one record each."""
    settings = Settings(home=home)
    rows = []
    for offset, (minute, device, mac_class, dbm) in enumerate(heard):
        at = NOON + timedelta(minutes=minute, seconds=5)
        start = int(at.replace(hour=0, minute=0, second=0).timestamp()) // 60
        value = {
            "device_hash": device * 32,
            "mac_class": mac_class,
            "rssi_dbm": dbm,
            "period_start": start,
            "period_end": start + 1440,
            "open_at": "unknown",
        }
        identity = {
            "store_id": "367",
            "event_id": f"wifi:{device}:{minute}",
            "fingerprint": f"{dbm}",
        }
        rows.append(
            {
                "source": "wifi",
                "event_date": at.date(),
                "happened_at": at,
                "partition": 0,
                "offset": offset,
                "value": json.dumps(value),
                **identity,
            }
        )
    unreadable = {**rows[0], "event_id": None, "store_id": None, "offset": 10**6, "value": "{"}
    write_deltalake(
        str(settings.master_path),
        pa.Table.from_pylist([*rows, unreadable]),
        partition_by=["source", "event_date"],
    )
    return Master(settings)


VISIT = [(minute, "a", "fixed", -60) for minute in range(11)]


def test_a_visit_is_counted_where_it_begins_and_its_minutes_where_they_are(tmp_path: Path) -> None:
    late = [(minute, "a", "fixed", -60) for minute in range(11, 21)]

    found = presence_windows(opened(tmp_path, [*VISIT, *late]), WIFI)

    first, second = ("367", NOON), ("367", NOON + QUARTER)
    assert found.events == {first: 15, second: 6}
    assert found.values[first]["fixed",]["visits"] == 1
    assert found.values[first]["fixed",]["stay_seconds"] == 21 * 60
    assert found.values[second]["fixed",]["visits"] == 0
    assert found.values[second]["fixed",]["device_minutes"] == 6


def test_the_strongest_copy_of_a_second_counts(tmp_path: Path) -> None:
    weak = [(0, "b", "fixed", -84), (1, "b", "fixed", -84)]

    passed = presence_windows(opened(tmp_path / "weak", weak), WIFI)
    came_in = presence_windows(opened(tmp_path / "strong", [*weak, (0, "b", "fixed", -70)]), WIFI)

    names = ("visits", "passes")
    key = ("367", NOON)
    assert [
        tuple(one.values[key]["fixed",][name] for name in names) for one in (passed, came_in)
    ] == [(0, 1), (1, 0)]


def test_each_generation_is_expected_to_hold_what_it_has_read(tmp_path: Path) -> None:
    master = opened(tmp_path, [*VISIT, (12, "c", "fixed", -60), (13, "c", "fixed", -60)])
    before, after = (_covered(pin) for pin in (len(VISIT), 10**9))

    events = [windows_at_pins(master, WIFI, one).events for one in (before, after)]

    assert events == [{("367", NOON): 11}, {("367", NOON): 13}]


@pytest.mark.parametrize(
    ("until", "held"), [(NOON, False), (NOON + QUARTER, True), (MIDNIGHT, False)]
)
def test_windows_that_a_generation_does_not_answer_for_are_left_to_the_speed_layer(
    tmp_path: Path, until: datetime, held: bool
) -> None:
    covered = _covered(10**9, until)

    found = windows_at_pins(opened(tmp_path, VISIT), WIFI, covered)

    assert (("367", NOON) in found.values) is held


def _covered(pin: int, until: datetime = MIDNIGHT + timedelta(days=1)) -> CoveredWindows:
    day = date(2026, 3, 2)
    one = Generation(
        day=day,
        generation=1,
        epoch=1,
        covered_from=MIDNIGHT,
        covered_until=MIDNIGHT + timedelta(days=1),
        table_version=1,
        flipped_at=MIDNIGHT + timedelta(days=2),
        pinned={0: pin},
        through={},
    )
    return CoveredWindows({day: one}, {("367", day, 1): (MIDNIGHT, until)})
