"""What the stores file says of a store besides identities: place, hours, size, and since when."""

from datetime import date, time
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import yaml

from runtime.registry.store_fields import FIXED_FIELDS, Coordinates
from runtime.registry.stores import StoreEntry, load_stores
from tally.errors import BadSettings
from tally.time.day_clock import DayClock
from tally.time.opening_hours import parse_opening_hours

STORE = """
367:
  name: Corso
  tz: Europe/Bratislava
  country: SK
  coordinates: [48.1486, 17.1077]
  opening_hours: {mon-fri: "08:00-20:00", sat: "09:00-13:00", sun: closed}
  floor_area_m2: 380.5
  tills: 4
  groups: [west, malls]
  sensors: {accc00000001: {door: main}}
  changes:
    2026-09-01: {name: Corso II, tills: 6}
    2026-05-01: {floor_area_m2: 400, tills: 5, opening_hours: {mon-sun: "08:00-22:00"}}
"""


def entry(folder: Path, text: str) -> StoreEntry:
    file = folder / "stores.yaml"
    file.write_text(text, "utf-8")
    (found,) = load_stores(file).values()
    return found


def test_a_store_has_its_place_hours_size_groups_and_the_doors_of_its_sensors(
    tmp_path: Path,
) -> None:
    found = entry(tmp_path, STORE)

    assert (found.country, found.coordinates) == ("SK", Coordinates(48.1486, 17.1077))
    assert (found.floor_area_m2, found.tills, found.groups) == (380.5, 4, ("west", "malls"))
    assert found.sensors["accc00000001"].door == "main"
    assert found.opening_hours == parse_opening_hours(
        {"mon-fri": "08:00-20:00", "sat": "09:00-13:00", "sun": "closed"}
    )


@pytest.mark.parametrize(
    ("day", "name", "area", "tills"),
    [
        (date.min, "Corso", 380.5, 4),
        (date(2026, 4, 30), "Corso", 380.5, 4),
        (date(2026, 5, 1), "Corso", 400, 5),
        (date(2026, 8, 31), "Corso", 400, 5),
        (date(2026, 9, 1), "Corso II", 400, 6),
        (date.max, "Corso II", 400, 6),
    ],
)
def test_a_change_holds_from_its_day_on_and_later_ones_beside_it(
    tmp_path: Path, day: date, name: str, area: float, tills: int
) -> None:
    on_the_day = entry(tmp_path, STORE).valid_on(day)

    assert (on_the_day.name, on_the_day.floor_area_m2, on_the_day.changes) == (name, area, {})
    assert (on_the_day.tills, on_the_day.country) == (tills, "SK")


def test_what_is_told_of_an_entry_is_read_as_the_same_entry(tmp_path: Path) -> None:
    found = entry(tmp_path, STORE)

    assert entry(tmp_path, yaml.safe_dump({"367": found.to_fields()})) == found
    assert StoreEntry().to_fields() == {}


@pytest.mark.parametrize("country", ["", "country: SK, ", "country: DE, "])
def test_a_part_of_a_country_is_one_that_its_holidays_go_by(tmp_path: Path, country: str) -> None:
    text = f"367: {{{country}subdivision: BY}}"

    if "DE" in country:
        assert entry(tmp_path, text).subdivision == "BY"
        return
    with pytest.raises(BadSettings, match=r"name the country|no part of SK .*none: leave it out"):
        entry(tmp_path, text)


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ("country: Slovakia", "country: 'Slovakia' does not fit; wanted: a country of ISO 3166-1"),
        ("country: XK", "367.country: 'XK' does not fit"),
        ("country: DE, subdivision: Bavaria", "subdivision 'Bavaria' is no part of DE"),
        ("coordinates: [48.1]", "does not fit; wanted: [latitude, longitude] in degrees"),
        ("coordinates: [nan, 17]", "does not fit; wanted: [latitude, longitude] in degrees"),
        ("coordinates: [[48], 17]", "does not fit; wanted: [latitude, longitude] in degrees"),
        ("coordinates: [117.1, 48.1]", "367.coordinates: ['117.1', '48.1'] does not fit"),
        ("opening_hours: {mon-sat: closed}", "opening_hours: sun is missing"),
        ("floor_area_m2: 0", "floor_area_m2: '0' does not fit; wanted: an area in square metres"),
        ("floor_area_m2: 1_000", "floor_area_m2: '1_000' does not fit"),
        ("floor_area_m2: [1]", "floor_area_m2: ['1'] does not fit"),
        ("tills: -1", "tills: '-1' does not fit; wanted: a number of tills, e.g. 4"),
        ("tills: four", "tills: 'four' does not fit"),
        ("groups: west", "groups: 'west' does not fit; wanted: a list of different names"),
        ("groups: [west, west]", "groups: a name stands there twice"),
        ("sensors: {a: {door: ''}}", "sensors.a.door: String should have at least 1 character"),
        ("changes: [2026-05-01]", "does not fit; wanted: days with fields, e.g. `2026-05-01:"),
        ("changes: {May: {tills: 1}}", "changes.May: 'May' is no day, e.g. 2026-05-01"),
        ("changes: {2026-02-29: {tills: 1}}", "changes.2026-02-29: '2026-02-29' is no day"),
        ("changes: {20260501: {tills: 1}}", "changes.20260501: '20260501' is no day"),
        ("changes: {2026-05-01: }", "changes.2026-05-01: fields are wanted"),
        (
            "changes: {2026-05-01: {tils: 1}}",
            "2026-05-01: unknown field 'tils'; known are name",
        ),
        ("changes: {2026-05-01: {tills: x}}", "367.changes.2026-05-01.tills: 'x' does not fit"),
        ("changes: {2026-05-01: {changes: {}}}", "2026-05-01: unknown field 'changes'"),
        (
            "country: DE, subdivision: BY, changes: {2026-05-01: {country: SK}}",
            "changes.2026-05-01: subdivision 'BY' is no part of SK",
        ),
        (
            'day_starts: "04:00", opening_hours: {mon-sun: "02:00-10:00"}',
            "opening_hours: 02:00-10:00 begins before the store's day does (day_starts 04:00)",
        ),
        ("name: a, name: b", "name stands there twice"),
    ],
)
def test_what_is_wrong_is_named_with_file_store_field_and_fix(
    tmp_path: Path, fields: str, wrong: str
) -> None:
    with pytest.raises(BadSettings) as refused:
        entry(tmp_path, f"367: {{{fields}}}")

    told = str(refused.value)
    assert wrong in told and "stores.yaml" in told and "\n" not in told


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("numbering", "daily"),
        ("networks", "[L_1]"),
        ("sensors", "{a: {}}"),
    ],
)
def test_what_decides_identities_cannot_change_from_a_day_on(
    tmp_path: Path, name: str, value: str
) -> None:
    said = rf"2026-05-01: {name} cannot change from a day on: .*write it beside `changes`"

    with pytest.raises(BadSettings, match=said):
        entry(tmp_path, f"367: {{changes: {{2026-05-01: {{{name}: {value}}}}}}}")
    assert name in FIXED_FIELDS


def test_a_store_s_clock_changes_from_a_day_on(tmp_path: Path) -> None:
    found = entry(
        tmp_path,
        "367: {tz: Europe/Rome, changes: {2026-05-01: {tz: Europe/London, tills: 2},"
        ' 2026-06-01: {day_starts: "04:00"}, 2026-07-01: {tills: 3}}}',
    )

    rome, london = map(ZoneInfo, ("Europe/Rome", "Europe/London"))
    assert found.clock("UTC").parts == (
        (date.min, rome, time(0)),
        (date(2026, 5, 1), london, time(0)),
        (date(2026, 6, 1), london, time(4)),
    )
    assert entry(tmp_path, "367: {}").clock("Asia/Tokyo") == DayClock.from_zone(
        ZoneInfo("Asia/Tokyo")
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("changes: {2026-05-01: {tz: Asia/Tokyo}}", "the one before is not; name it beside"),
        (
            'tz: Europe/London, day_starts: "23:00", changes: {2026-05-01: {tz: Asia/Tokyo,'
            ' day_starts: "00:00"}}',
            "changes.2026-05-01: by the new clock the day before would end before it begins",
        ),
        (
            "tz: Europe/London, changes: {0001-01-01: {tz: Asia/Tokyo}}",
            "changes: the first day lies at the end of the calendar",
        ),
        (
            "tz: Pacific/Kiritimati, changes: {2026-05-01: {tz: Pacific/Pago_Pago}}",
            "or last for more than 48 hours; let it hold from another day on",
        ),
    ],
)
def test_a_clock_that_would_leave_a_day_out_is_refused(
    tmp_path: Path, fields: str, said: str
) -> None:
    with pytest.raises(BadSettings, match=said):
        entry(tmp_path, f"367: {{{fields}}}")


def test_a_store_that_stands_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="367 stands there twice; join the two"):
        entry(tmp_path, "367: {name: a}\n367: {name: b}\n")


def test_a_store_that_closes_at_two_lets_its_days_begin_at_four(tmp_path: Path) -> None:
    found = entry(tmp_path, '367: {day_starts: "04:00", opening_hours: {mon-sun: "18:00-02:00"}}')

    assert found.day_starts == time(4)
    assert found.to_fields() == {
        "day_starts": "04:00",
        "opening_hours": {"mon-sun": "18:00-02:00"},
    }
