"""Fields of the stores file: the valid values of each, and which may change from a day on."""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, time
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, PlainValidator

from tally.config.plain_values import (
    STRICT_FIELDS,
    FileDay,
    Identifier,
    WholeNumber,
    check_identifier,
)
from tally.errors import BadSettings
from tally.events.identity import normalise_address
from tally.events.money import CURRENCIES, ROUNDINGS
from tally.people.visits import VisitRules
from tally.time.holidays import COUNTRIES
from tally.time.opening_hours import OpeningHours, parse_opening_hours
from tally.time.windows import WINDOW_SECONDS

# Python's other forms of a number (1_000, nan, 1e3) are mistakes in a hand-written file.
_DECIMAL = re.compile(r"-?\d{1,9}(\.\d{1,9})?\Z", re.ASCII)

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
# The values of each field in words; the first seven fields exist as long as the file does.
FIELD_WORDS: Mapping[str, str] = {
    "name": "a text; leave the field out for the default",
    "tz": "an IANA time zone, e.g. Europe/Rome",
    "currency": "a currency of ISO 4217, e.g. EUR; leave the field out for the default",
    "numbering": "daily or yearly; without it numbers never begin again",
    "sensors": "serials with their fields, e.g. `accc00000001: {door: main}`",
    "day_starts": "a time of day on a whole quarter of an hour, e.g. 04:00",
    "networks": "a list of names, e.g. [L_1234]",
    "access_points": "a list of names, e.g. [00180a000001]",
    "country": "a country of ISO 3166-1: two capital letters, e.g. SK",
    "subdivision": "a part of the country whose holidays are known",
    "coordinates": "[latitude, longitude] in degrees, latitude first, -90 to 90, then longitude,"
    " -180 to 180, e.g. [48.1486, 17.1077]",
    "opening_hours": 'the hours of each weekday, e.g. {mon-sat: "08:00-20:00", sun: closed}',
    "floor_area_m2": "an area in square metres, e.g. 380",
    "tills": "a number of tills, e.g. 4",
    "groups": "a list of different names, e.g. [west]",
    "rounding": f"one of {', '.join(ROUNDINGS)}",
    "visits": "rules, e.g. `{enter_dbm: -75, gap_minutes: 30}`",
    "closed": "a day, e.g. 2026-05-01",
    "delisted": "item ids with days, e.g. `{4006381333931: 2026-05-01}`",
}
Clock = Literal["rfc3339", "unix_s", "unix_ms"]
# Where a counter is mounted: only a person who comes in at an entrance is a visitor of the store.
DoorRole = Literal["entrance", "inner_door", "zone", "shared_door", "staff_door"]
_DEFAULTS = VisitRules()
FIELDS = tuple(FIELD_WORDS)
CHANGEABLE = tuple(name for name in FIELDS if name not in FIXED_FIELDS)


class Coordinates(NamedTuple):
    """Position of a store in degrees of WGS 84: north and east of zero are positive."""

    latitude: float
    longitude: float


def _check_known(known: Container[str], word: str) -> str:
    if word not in known:
        # FIELD_WORDS say what is wanted.
        raise ValueError
    return word


def _check_zone(name: str) -> str:
    try:
        parse_zone(name, "tz")
    except BadSettings as error:
        raise ValueError from error
    return name


def _read_time_of_day(value: object) -> time:
    try:
        found = datetime.strptime(str(value), "%H:%M").time()
    except ValueError as error:
        raise ValueError from error
    # A window must not lie in two days.
    if found.minute % (WINDOW_SECONDS // 60):
        raise ValueError
    return found


def _check_different(names: tuple[str, ...]) -> tuple[str, ...]:
    if len({*names}) < len(names):
        raise ValueError("a name stands there twice; name each group once")
    return names


def _read_coordinates(value: object) -> Coordinates:
    listed = [str(degrees) for degrees in value] if isinstance(value, list) else []
    if len(listed) != 2 or not all(map(_DECIMAL.match, listed)):
        raise ValueError
    found = Coordinates(*map(float, listed))
    if abs(found.latitude) > 90 or abs(found.longitude) > 180:
        raise ValueError
    return found


def _read_floor_area(value: object) -> float:
    area = float(value) if isinstance(value, str) and _DECIMAL.match(value) else 0.0
    if area <= 0:
        raise ValueError
    return area


def _plain_area(area: float) -> Any:
    # The hand-written form: 400 in the file and 400.0 are one area.
    return int(area) if area.is_integer() else area


Text = Annotated[str, Field(min_length=1)]
ZoneName = Annotated[Text, AfterValidator(_check_zone)]
CurrencyCode = Annotated[Text, AfterValidator(partial(_check_known, CURRENCIES))]
NumberingWord = Literal["daily", "yearly"]
DayStart = Annotated[
    time, BeforeValidator(_read_time_of_day), PlainSerializer(lambda start: f"{start:%H:%M}")
]
Names = tuple[Text, ...]
# Records have an address in one spelling: one in another spelling would never be matched.
AddressNames = tuple[
    Annotated[Text, AfterValidator(normalise_address), AfterValidator(check_identifier)], ...
]
CountryCode = Annotated[Text, AfterValidator(partial(_check_known, COUNTRIES))]
StorePosition = Annotated[Coordinates, PlainValidator(_read_coordinates), PlainSerializer(list)]
_HOURS_TEXT = PlainSerializer(OpeningHours.to_mapping)
Hours = Annotated[OpeningHours, PlainValidator(parse_opening_hours), _HOURS_TEXT]
FloorArea = Annotated[float, PlainValidator(_read_floor_area), PlainSerializer(_plain_area)]
Tills = Annotated[WholeNumber, Field(ge=0, le=999_999)]
Groups = Annotated[Names, AfterValidator(_check_different)]
RoundingName = Annotated[Text, AfterValidator(partial(_check_known, ROUNDINGS))]


def parse_zone(name: str, where: str) -> ZoneInfo:
    """The time zone of this name. Raises BadSettings."""
    try:
        return ZoneInfo(name)
    # An OSError: `Europe` is a folder of zones, and a name may be too long for a file.
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadSettings(f"{where} {name!r} is no IANA time zone, e.g. Europe/Rome") from error


def midday_zone() -> str:
    """A time zone in which it is about midday now, so that generated stores there are open."""
    offset = 12 - datetime.now(UTC).hour
    # These names have the inverted sign: Etc/GMT-2 is two hours ahead of UTC.
    return f"Etc/GMT{-offset:+d}" if offset else "UTC"


_Dbm: TypeAlias = Annotated[WholeNumber, Field(ge=-120, le=0)]
_Minutes: TypeAlias = Annotated[WholeNumber, Field(ge=1, le=1440)]


@STRICT_FIELDS
@dataclass(frozen=True, kw_only=True)
class VisitEntry:
    """The fields of tally.people.visits.VisitRules, and the `revision` of these rules.

    Windows of a higher revision replace those of a lower one: a change of the rules for days that
    have begun must raise it.
    """

    enter_dbm: _Dbm = _DEFAULTS.enter_dbm
    stay_dbm: _Dbm = _DEFAULTS.stay_dbm
    gap_minutes: Annotated[WholeNumber, Field(ge=1, le=240)] = _DEFAULTS.gap_minutes
    min_stay_minutes: _Minutes = _DEFAULTS.min_stay_minutes
    bounce_minutes: _Minutes = _DEFAULTS.bounce_minutes
    static_minutes: _Minutes = _DEFAULTS.static_minutes
    closed_minutes: _Minutes = _DEFAULTS.closed_minutes
    revision: Annotated[WholeNumber, Field(ge=0, le=1000)] = 0

    @property
    def rules(self) -> VisitRules:
        """The rules without the revision."""
        names = [rule.name for rule in fields(VisitRules)]
        return VisitRules(**{name: getattr(self, name) for name in names})


def _check_signals(entry: VisitEntry) -> VisitEntry:
    if entry.stay_dbm > entry.enter_dbm:
        raise ValueError(
            f"stay_dbm {entry.stay_dbm} is stronger than enter_dbm {entry.enter_dbm}:"
            " who has come in would have left; give it the same or less"
        )
    return entry


Visits = Annotated[VisitEntry, AfterValidator(_check_signals)]


@STRICT_FIELDS
@dataclass(frozen=True, kw_only=True)
class SensorEntry:
    """Fields of one sensor in the file.

    `device_id` is its name in records, by default its serial. `interval_seconds` is the only length
    of its intervals: others are refused, since a device that was changed from minutes to quarter
    hours and sends a day again would be counted twice. `entries` and `exits` are the names of its
    counts for persons in and out, swapped for a sensor that was mounted the other way round.
    `clock` is the format of its instants: never guessed from their size. `clock_ahead_seconds` is
    how much that clock is fast: its intervals are moved back by so much. `status_seconds`: the
    interval of its status messages, where it sends them separately. `door` is the name of the door
    that it watches, `role` the kind of door.
    It is installed from the local day `since` until before the day `until`; without them always.
    """

    device_id: Identifier | None = None
    interval_seconds: Annotated[WholeNumber, Field(ge=1, le=3600)] | None = None
    entries: tuple[str, ...] = ("in", "fw")
    exits: tuple[str, ...] = ("out", "bw")
    clock: Clock = "rfc3339"
    clock_ahead_seconds: Annotated[WholeNumber, Field(ge=-60, le=60)] = 0
    status_seconds: Annotated[WholeNumber, Field(ge=1, le=WINDOW_SECONDS)] = WINDOW_SECONDS
    door: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    role: DoorRole = "entrance"
    since: FileDay | None = None
    until: FileDay | None = None


def _read_fields(fields: object) -> object:
    if isinstance(fields, Mapping) and "null" in fields.values():
        raise ValueError("null is no value; leave the field out")
    return fields or {}


def _check_sensor(entry: SensorEntry) -> SensorEntry:
    if entry.since and entry.until and entry.until <= entry.since:
        raise ValueError(f"until {entry.until} is not after since {entry.since}")
    if both := {*entry.entries} & {*entry.exits}:
        raise ValueError(f"{min(both)!r} is among its entries and its exits")
    return entry


def _check_names(sensors: Mapping[str, SensorEntry]) -> Mapping[str, SensorEntry]:
    """The sensors. Raises ValueError if two of them have one name at the same time.

    Each would hide that the other is silent.
    """
    last: dict[str, SensorEntry] = {}
    # Sensors are ordered by their first day.
    since = {serial: entry.since or date.min for serial, entry in sensors.items()}
    for serial in sorted(sensors, key=since.__getitem__):
        entry = sensors[serial]
        name = entry.device_id or serial
        before = last.get(name)
        if before and since[serial] < (before.until or date.max):
            raise ValueError(
                f"{serial}: another has the device_id {name} too; end that one with `until`, and"
                " let this one begin with `since`"
            )
        last[name] = entry
    return sensors


# Sensors of one store by serial; one without fields has the defaults.
Sensors = Annotated[
    Mapping[
        Identifier,
        Annotated[SensorEntry, AfterValidator(_check_sensor), BeforeValidator(_read_fields)],
    ],
    AfterValidator(_check_names),
]
