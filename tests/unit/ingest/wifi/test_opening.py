"""When a store is open in a key period: what a sighting's record carries of the stores file."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from ingest.installation.arrival import Arrival, Rules
from ingest.sources.registry import load_conversion
from schemas import loader
from tally.config.settings import Settings
from tally.people.visits import parse_period_hours

ARRIVED = datetime(1990, 3, 2, 12, tzinfo=UTC)
HOURS = '{mon-fri: "08:00-20:00", sat: ["09:00-12:00", "13:00-17:00"], sun: closed}'
STORES = f"""
day: {{tz: Europe/Bratislava, opening_hours: {HOURS}}}
feast: {{tz: Europe/Bratislava, country: SK, opening_hours: {HOURS[:-1]}, holidays: closed}}}}
night: {{tz: Europe/Bratislava, day_starts: "04:00", opening_hours: {{mon-sun: "18:00-02:00"}}}}
changed:
  tz: Europe/Bratislava
  opening_hours: {HOURS}
  changes: {{2026-11-26: {{opening_hours: {{mon-sun: "10:00-11:00"}}}}}}
unsaid: {{tz: Europe/Bratislava}}
"""


def told(tmp_path: Path, store: str, at: str) -> tuple[str, list[str] | None]:
    """`open_at` of a sighting of the instant, and the spans by UTC clock."""
    file = tmp_path / "stores.yaml"
    file.write_text(STORES, "utf-8")
    rules = Rules.from_settings(Settings(home=tmp_path, stores_file=file))
    message = {
        "store_id": store,
        "device_hash": "0" * 32,
        "mac_class": "fixed",
        "ap_id": "door",
        "happened_at": at,
        "rssi_dbm": -60,
    }
    arrival = Arrival(datetime.fromisoformat(at), 0, 0)
    event = load_conversion(loader.builtin_sources()["wifi"])(
        json.dumps(message).encode(), arrival, rules
    )
    record = msgspec.to_builtins(event)
    period = record["period_start"], record["period_end"]
    spans = parse_period_hours(record["open_at"], *period).open_at
    if spans is None:
        return record["open_at"], None
    return record["open_at"], [f"{_clock(first)}-{_clock(last + 1)}" for first, last in spans]


def _clock(minute: int) -> str:
    return f"{datetime.fromtimestamp(60 * minute, UTC):%d %H:%M}"


@pytest.mark.parametrize(
    ("store", "at", "text", "spans"),
    [
        ("day", "2026-11-26T12:00:00+00:00", "480-1199", ["26 07:00-26 19:00"]),
        ("day", "2026-11-28T12:00:00+00:00", "540-719,780-1019", None),
        ("day", "2026-11-29T12:00:00+00:00", "closed", []),
        # The night on which clocks are set forward is an hour shorter, and a Sunday.
        ("day", "2026-03-30T12:00:00+00:00", "480-1199", ["30 06:00-30 18:00"]),
        ("night", "2026-11-26T20:00:00+00:00", "840-1319", ["26 17:00-27 01:00"]),
        # After midnight it is the evening's day still.
        ("night", "2026-11-27T00:30:00+00:00", "840-1319", ["26 17:00-27 01:00"]),
        # An hour that is there twice: closing time is the first of both.
        ("night", "2026-10-24T20:00:00+00:00", "840-1319", ["24 16:00-25 00:00"]),
        ("feast", "2026-12-25T12:00:00+00:00", "closed", []),
        ("feast", "2026-12-23T12:00:00+00:00", "480-1199", None),
        ("changed", "2026-11-25T12:00:00+00:00", "480-1199", None),
        ("changed", "2026-11-26T12:00:00+00:00", "600-659", ["26 09:00-26 10:00"]),
        ("unsaid", "2026-11-26T12:00:00+00:00", "unknown", None),
        ("elsewhere", "2026-11-26T12:00:00+00:00", "unknown", None),
    ],
)
def test_record_of_a_sighting_says_when_its_store_is_open_in_the_key_period(
    tmp_path: Path, store: str, at: str, text: str, spans: list[str] | None
) -> None:
    found = told(tmp_path, store, at)

    assert found[0] == text
    assert spans is None or found[1] == spans


def test_what_is_remembered_is_bounded_whatever_stores_and_days_are_asked_for(
    tmp_path: Path,
) -> None:
    file = tmp_path / "stores.yaml"
    file.write_text(STORES, "utf-8")
    rules = Rules.from_settings(Settings(home=tmp_path, stores_file=file))
    opening = rules.devices.opening

    # Ids that anybody can invent, and more days of a store than a year of thirty stores has.
    for number in range(5_000):
        rules.open_minutes(f"invented-{number}", rules.key_period("day", ARRIVED))
    assert len(opening._cache) == 0
    for number in range(12_000):
        period = rules.key_period("day", ARRIVED + timedelta(days=number))
        rules.open_minutes("day", period)
    assert 0 < len(opening._cache) <= 10_000
