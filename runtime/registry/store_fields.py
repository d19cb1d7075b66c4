"""Fields of the stores file: the valid values of each, and which may change from a day on."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from runtime.registry.sensors import parse_sensors
from runtime.registry.visit_entry import parse_visit_entry
from tally.errors import BadSettings
from tally.events.identity import IDENTIFIER, normalise_address
from tally.events.money import CURRENCIES, ROUNDINGS
from tally.time.holidays import COUNTRIES
from tally.time.opening_hours import OpeningHours, parse_opening_hours
from tally.time.windows import WINDOW_SECONDS

_MIDDAY = 12
NUMBERINGS = ("daily", "yearly")
WINDOW_MINUTES = WINDOW_SECONDS // 60
# Python's other forms of a number (1_000, nan, 1e3) are mistakes in a hand-written file.
_DECIMAL = re.compile(r"-?\d{1,9}(\.\d{1,9})?\Z", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
_INTEGER = re.compile(r"\d{1,6}\Z", re.ASCII)

_OWNER_REASON = (
    "it decides which store a record is of, and one that is sent again would be another's"
)
# Fields with one value for good, since identities are made of them, and the reason of each.
FIXED_FIELDS: Mapping[str, str] = {
    "numbering": "receipts' identities hold it, and one that is sent again would count twice",
    "networks": _OWNER_REASON,
    "sensors": _OWNER_REASON,
    "closed": "it is a day itself",
    "delisted": "it has days itself",
}
_DAY_REASON = "each record was given its day by it, those that are stored too"
# Fields that stored records depend on: they may change from a day on, and not for earlier days.
RECORD_FIELDS: Mapping[str, str] = {
    "tz": _DAY_REASON,
    "day_starts": _DAY_REASON,
    "currency": "amounts are whole numbers of its minor units, and would be read as other money",
    "rounding": "receipts' amounts are made by it, and one that is sent again has to be equal",
}


class Coordinates(NamedTuple):
    """Position of a store in degrees of WGS 84: north and east of zero are positive."""

    latitude: float
    longitude: float


def parse_fields(where: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the fields to values by name; `where` names file and store.

    Raises BadSettings that names the field and the fix.
    """
    found = {}
    for name, raw in fields.items():
        found[name] = _PARSERS[name](where, name, raw)
    return found


def parse_changes(where: str, raw: Any) -> dict[date, dict[str, Any]]:
    """Parse the fields that change from a day on, by that day, ascending.

    Raises BadSettings, also for a field of FIXED.
    """
    if not isinstance(raw, Mapping):
        raise BadSettings(
            f"{where}: changes: days with fields are wanted,"
            " e.g. `2026-05-01: {floor_area_m2: 400}`"
        )
    found = {
        _parse_day(where, day): _parse_change(f"{where}: changes: {day}", raw[day]) for day in raw
    }
    return dict(sorted(found.items()))


def _parse_change(where: str, fields: Any) -> dict[str, Any]:
    if not isinstance(fields, Mapping) or not fields:
        raise BadSettings(f"{where}: fields are wanted, e.g. `{{floor_area_m2: 400}}`")
    for name in fields:
        if name in FIXED_FIELDS:
            raise BadSettings(
                f"{where}: {name} cannot change from a day on: {FIXED_FIELDS[name]};"
                " write it beside `changes`, or give the store a new id from that day on"
            )
        if name not in CHANGEABLE:
            raise BadSettings(f"{where}: unknown field {name!r}; known are {', '.join(CHANGEABLE)}")
    return parse_fields(where, fields)


def _parse_day(where: str, raw: object, name: str = "changes") -> date:
    text = str(raw)
    try:
        # One form only: 20260501 beside 2026-05-01 would be one day with two changes.
        if _DAY.match(text):
            return date.fromisoformat(text)
    except ValueError:
        pass  # reported below: the form is right, and the calendar has no such day
    raise BadSettings(f"{where}: {name}: {text!r} is no day, e.g. 2026-05-01")


def _parse_delistings(where: str, name: str, raw: object) -> dict[str, date]:
    if not isinstance(raw, Mapping):
        raise BadSettings(
            f"{where}: {name}: item ids with days are wanted, e.g. `{{4006381333931: 2026-05-01}}`"
        )
    items = {str(item): day for item, day in raw.items()}
    return {item: _parse_day(where, day, f"{name}: {item}") for item, day in items.items()}


def _parse_text(where: str, name: str, raw: object) -> str:
    if not isinstance(raw, str) or not raw:
        raise BadSettings(f"{where}: {name}: a text is wanted; leave the field out for the default")
    return raw


def _parse_tz(where: str, name: str, raw: object) -> str:
    zone = _parse_text(where, name, raw)
    parse_zone(zone, f"{where}: {name}")
    return zone


def _parse_currency(where: str, name: str, raw: object) -> str:
    currency = _parse_text(where, name, raw)
    if currency not in CURRENCIES:
        raise BadSettings(f"{where}: {name} {currency!r} is no currency of ISO 4217, e.g. EUR")
    return currency


def _parse_numbering(where: str, name: str, raw: object) -> str:
    numbering = _parse_text(where, name, raw)
    if numbering not in NUMBERINGS:
        raise BadSettings(
            f"{where}: {name} {numbering!r} is none of {', '.join(NUMBERINGS)};"
            " without it numbers never begin again"
        )
    return numbering


def _parse_rounding(where: str, name: str, raw: object) -> str:
    rounding = _parse_text(where, name, raw)
    if rounding not in ROUNDINGS:
        raise BadSettings(f"{where}: {name} {rounding!r} is none of {', '.join(ROUNDINGS)}")
    return rounding


def _parse_time_of_day(where: str, name: str, raw: object) -> time:
    try:
        found = datetime.strptime(str(raw), "%H:%M").time()
    except ValueError as error:
        raise BadSettings(f"{where}: {name}: {raw!r} is no time of day, e.g. 04:00") from error
    # A window must not lie in two days.
    if found.minute % WINDOW_MINUTES:
        raise BadSettings(f"{where}: {name}: {raw!r} is no whole quarter of an hour, e.g. 04:00")
    return found


def _parse_names(where: str, name: str, raw: object) -> tuple[str, ...]:
    listed = raw if isinstance(raw, list) else [None]
    if not all(isinstance(entry, str) and entry for entry in listed):
        raise BadSettings(f"{where}: {name}: a list of names is wanted, e.g. [{_EXAMPLES[name]}]")
    return tuple(listed)


def _parse_access_points(where: str, name: str, raw: object) -> tuple[str, ...]:
    # Records have an address in one spelling: one in another spelling would never be matched.
    addresses = tuple(normalise_address(address) for address in _parse_names(where, name, raw))
    for address in addresses:
        if IDENTIFIER.fullmatch(address) is None:
            raise BadSettings(f"{where}: {name}: {address!r} is not 1 to 64 of A-Z a-z 0-9 . _ : -")
    return addresses


def _parse_groups(where: str, name: str, raw: object) -> tuple[str, ...]:
    groups = _parse_names(where, name, raw)
    if len({*groups}) < len(groups):
        raise BadSettings(f"{where}: {name}: a name stands there twice; name each group once")
    return groups


def _parse_country(where: str, name: str, raw: object) -> str:
    country = _parse_text(where, name, raw)
    if country not in COUNTRIES:
        raise BadSettings(
            f"{where}: {name} {country!r} is no country of ISO 3166-1: two capital letters, e.g. SK"
        )
    return country


def _parse_coordinates(where: str, name: str, raw: object) -> Coordinates:
    listed = [str(degrees) for degrees in raw] if isinstance(raw, list) else []
    if len(listed) != 2 or not all(map(_DECIMAL.match, listed)):
        raise BadSettings(
            f"{where}: {name}: [latitude, longitude] in degrees are wanted, e.g. [48.1486, 17.1077]"
        )
    found = Coordinates(*map(float, listed))
    if abs(found.latitude) > 90 or abs(found.longitude) > 180:
        raise BadSettings(
            f"{where}: {name}: {listed[0]}, {listed[1]} is no place: latitude first, -90 to 90,"
            " then longitude, -180 to 180"
        )
    return found


def _parse_opening_hours(where: str, name: str, raw: object) -> OpeningHours:
    try:
        return parse_opening_hours(raw)
    except ValueError as error:
        raise BadSettings(f"{where}: {name}: {error}") from error


def _parse_floor_area(where: str, name: str, raw: object) -> float:
    area = float(raw) if isinstance(raw, str) and _DECIMAL.match(raw) else 0.0
    if area <= 0:
        raise BadSettings(f"{where}: {name}: {raw!r} is no area in square metres, e.g. 380")
    return area


def _parse_tills(where: str, name: str, raw: object) -> int:
    if not isinstance(raw, str) or not _INTEGER.match(raw):
        raise BadSettings(f"{where}: {name}: {raw!r} is no number of tills, e.g. 4")
    return int(raw)


# The reader of each field; the first seven fields exist as long as the file does.
_PARSERS: Mapping[str, Callable[[str, str, Any], Any]] = {
    "name": _parse_text,
    "tz": _parse_tz,
    "currency": _parse_currency,
    "numbering": _parse_numbering,
    "sensors": lambda where, _, raw: parse_sensors(where, raw),
    "day_starts": _parse_time_of_day,
    "networks": _parse_names,
    "access_points": _parse_access_points,
    "country": _parse_country,
    "subdivision": _parse_text,
    "coordinates": _parse_coordinates,
    "opening_hours": _parse_opening_hours,
    "floor_area_m2": _parse_floor_area,
    "tills": _parse_tills,
    "groups": _parse_groups,
    "rounding": _parse_rounding,
    "visits": lambda where, name, raw: parse_visit_entry(f"{where}: {name}", raw),
    "closed": lambda where, name, raw: _parse_day(where, raw, name),
    "delisted": _parse_delistings,
}
FIELDS = tuple(_PARSERS)
CHANGEABLE = tuple(name for name in FIELDS if name not in FIXED_FIELDS)
_EXAMPLES = {"networks": "L_1234", "access_points": "00180a000001", "groups": "west"}


def to_plain_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as in the file, of plain types; empty ones are left out."""
    shown = {name: _plain_value(value) for name, value in values.items()}
    nothing: tuple[Any, ...] = (None, [], {})
    return {name: value for name, value in shown.items() if value not in nothing}


def _plain_value(value: Any) -> Any:
    match value:
        case OpeningHours():
            return value.to_mapping()
        case time():
            return f"{value:%H:%M}"
        case date():
            return value.isoformat()
        case tuple():
            return [*value]
        # The hand-written form: 400 in the file and 400.0 are one area.
        case float() if value.is_integer():
            return int(value)
        case Mapping() | msgspec.Struct():
            # These are sensors by serial, visit rules, and articles by the day of their end.
            return msgspec.to_builtins(value)
    return value


def parse_zone(name: str, where: str) -> ZoneInfo:
    """The time zone of this name. Raises BadSettings."""
    try:
        return ZoneInfo(name)
    # An OSError: `Europe` is a folder of zones, and a name may be too long for a file.
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadSettings(f"{where} {name!r} is no IANA time zone, e.g. Europe/Rome") from error


def midday_zone() -> str:
    """A time zone in which it is about midday now, so that generated stores there are open."""
    offset = _MIDDAY - datetime.now(UTC).hour
    # These names have the inverted sign: Etc/GMT-2 is two hours ahead of UTC.
    return f"Etc/GMT{-offset:+d}" if offset else "UTC"
