"""Two counters of one name that follow each other: each is itself, on its own days."""

from dataclasses import replace
from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ingest.installation.arrival import Sensor
from runtime.registry.store_fields import SensorEntry
from tally.errors import RejectedEvent
from tests.unit.ingest.messages import RULES, interval

DAY = date(2017, 9, 19)
OLD = SensorEntry(device_id="door-1", until=DAY, clock_ahead_seconds=45, role="staff_door")
NEW = SensorEntry(device_id="door-1", since=DAY, interval_seconds=900)
SENSORS = {
    serial: Sensor("367", ZoneInfo("UTC"), "door-1", entry)
    for serial, entry in (("old1", OLD), ("new1", NEW))
}
RULES_OF_BOTH = replace(RULES, sensors=SENSORS)


def told(serial: str, begins: str, ends: str) -> Any:
    counts = [["in", 12], ["out", 0]]
    message = {"sensor": serial, "happened_at": begins, "until": ends, "counts": counts}
    return interval(message, RULES_OF_BOTH)


@pytest.mark.parametrize(
    ("serial", "day"), [("old1", "2017-09-20"), ("new1", "2017-09-18")], ids=["still on", "bench"]
)
def test_a_counter_that_is_not_in_the_store_that_day_takes_nobody_s_place(
    serial: str, day: str
) -> None:
    with pytest.raises(RejectedEvent, match="this device is not in the store") as refused:
        told(serial, f"{day}T10:00:00Z", f"{day}T10:15:00Z")

    assert (refused.value.reason, refused.value.field) == ("out_of_range", "/happened_at")
    assert "2017-09-19" in refused.value.message


def test_on_the_day_of_the_change_each_has_its_own_clock_and_role() -> None:
    old = told("old1", "2017-09-19T08:00:45Z", "2017-09-19T08:15:45Z")
    new = told("new1", "2017-09-19T16:00:00Z", "2017-09-19T16:15:00Z")

    assert (old.happened_at[11:19], old.staff_entries, old.entries) == ("08:00:00", 12, 0)
    assert (new.happened_at[11:19], new.staff_entries, new.entries) == ("16:00:00", 0, 12)
    assert {old.device_id, new.device_id} == {"door-1"}


def test_the_length_is_that_of_the_one_that_sends() -> None:
    assert told("old1", "2017-09-19T08:00:00Z", "2017-09-19T08:01:00Z").interval_seconds == 60
    with pytest.raises(RejectedEvent, match="900 is taken of this device"):
        told("new1", "2017-09-19T16:00:00Z", "2017-09-19T16:01:00Z")
