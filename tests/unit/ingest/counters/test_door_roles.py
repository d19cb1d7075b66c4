"""Where a counter is, and whether the store is open: who of those that it counts is a visitor."""

from pathlib import Path

import pytest

from ingest.installation.arrival import Rules
from ingest.sources.traffic.contract import CanonicalInterval, shares
from tally.config.settings import Settings
from tests.unit.ingest.messages import TRAFFIC, interval

STORES = """
367:
  tz: Europe/Rome
  opening_hours: {mon-sun: "09:00-20:00"}
  sensors:
    s1: {device_id: door-1}
    s2: {device_id: inner, role: inner_door}
    s3: {device_id: zone, role: zone}
    s4: {device_id: mall, role: shared_door}
    s5: {device_id: yard, role: staff_door}
"""
COUNTED = {**TRAFFIC, "in": 12, "out": 5, "passers_by": 40, "interval_seconds": 900}


@pytest.fixture
def rules(tmp_path: Path) -> Rules:
    file = tmp_path / "stores.yaml"
    file.write_text(STORES, "utf-8")
    return Rules.from_settings(Settings(stores_file=file))


def counts(one: CanonicalInterval) -> dict[str, int]:
    """What is not 0."""
    names = (
        *("entries", "exits", "passers_by", "entries_with_passers", "groups_in"),
        *("closed_entries", "inner_entries", "shared_entries", "staff_entries"),
    )
    return {name: getattr(one, name) for name in names if getattr(one, name)}


@pytest.mark.parametrize(
    ("device", "part"),
    [
        ("inner", "inner_entries"),
        ("zone", "inner_entries"),
        ("mall", "shared_entries"),
        ("yard", "staff_entries"),
    ],
)
def test_another_door_than_an_entrance_has_a_number_of_its_own(
    rules: Rules, device: str, part: str
) -> None:
    told = {**COUNTED, "device_id": device, "happened_at": "2017-09-19T10:00:00Z"}

    assert counts(interval(told, rules)) == {part: 12}


@pytest.mark.parametrize(
    ("clock", "seconds", "closed"),
    [
        # 09:00 in Rome is 07:00 UTC in summer.
        ("06:45", 900, 12),
        ("06:46", 900, 0),
        ("07:00", 900, 0),
        ("17:45", 900, 0),
        ("18:00", 900, 12),
        ("05:30", 3600, 12),
        ("06:30", 3600, 0),
    ],
)
def test_who_comes_in_while_the_store_is_closed_is_there_and_no_visitor(
    rules: Rules, clock: str, seconds: int, closed: int
) -> None:
    told = {**COUNTED, "happened_at": f"2017-09-19T{clock}:00Z", "interval_seconds": seconds}

    found = counts(interval(told, rules))

    visitors = 12 - closed
    assert (found["exits"], found["passers_by"]) == (5, 40)
    assert (found.get("entries", 0), found.get("closed_entries", 0)) == (visitors, closed)
    assert found.get("groups_in", 0) == found.get("entries_with_passers", 0) == visitors


def test_a_store_that_tells_no_hours_is_never_closed() -> None:
    assert "closed_entries" not in counts(interval({**COUNTED, "in": 3}))


def test_shares_of_a_closed_interval_add_up_to_it(rules: Rules) -> None:
    told = {**COUNTED, "happened_at": "2017-09-19T19:07:00Z"}

    both = [*shares(interval(told, rules))]

    assert [one.closed_entries for one in both] == [6, 6]
    assert [one.entries for one in both] == [0, 0]
