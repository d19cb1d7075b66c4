"""Fields of the stores file: the valid values of each, and which may change from a day on."""

import re
from collections.abc import Container, Mapping
from datetime import UTC, datetime, time
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, PlainValidator

from tally.config.plain_values import WholeNumber, check_identifier
from tally.errors import BadSettings
from tally.events.identity import normalise_address
from tally.events.money import CURRENCIES, ROUNDINGS
from tally.time.holidays import COUNTRIES
from tally.time.opening_hours import OpeningHours, parse_opening_hours
from tally.time.windows import WINDOW_SECONDS

_MIDDAY = 12
WINDOW_MINUTES = WINDOW_SECONDS // 60
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
    if found.minute % WINDOW_MINUTES:
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
Hours = Annotated[
    OpeningHours,
    PlainValidator(parse_opening_hours),
    PlainSerializer(OpeningHours.to_mapping),
]
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
    offset = _MIDDAY - datetime.now(UTC).hour
    # These names have the inverted sign: Etc/GMT-2 is two hours ahead of UTC.
    return f"Etc/GMT{-offset:+d}" if offset else "UTC"
