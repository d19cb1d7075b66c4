"""The stores file: the master data of each store, and the families with its visit rules."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, time, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, PlainValidator, TypeAdapter, ValidationError

from runtime.registry import store_fields as kinds
from runtime.registry.sources import FAMILIES
from runtime.registry.store_fields import (
    CHANGEABLE,
    FIELD_WORDS,
    FIXED_FIELDS,
    Sensors,
    VisitEntry,
    Visits,
)
from runtime.registry.strict_yaml import parse_yaml
from tally.config.plain_values import (
    STRICT_FIELDS,
    FileDay,
    Identifier,
    list_problems,
    shorten_value,
)
from tally.config.settings import Settings
from tally.errors import BadSettings
from tally.events.identity import is_address, normalise_serial
from tally.families.epochs import EVER, DatedVisitRules, StoreVisitRules
from tally.families.family import Family
from tally.people.visits import MINUTE_SECONDS
from tally.time.day_clock import DatedClock, DayClock, irregular_days
from tally.time.holidays import HolidayNames, holiday_names, subdivisions
from tally.time.opening_hours import open_spans
from tally.time.windows import TimeRange

CHANGES = "changes"
_CLOCK = frozenset(("tz", "day_starts"))
# A key period of longer days would not lie within the days that are read for it.
_LONGEST_DAY = timedelta(hours=48)
_EMPTY: tuple[Any, ...] = (None, [], {})
# The setting that names the file by default.
_SETTING = "TALLY_STORES_FILE"


def _read_change(fields: object) -> dict[str, Any]:
    """The values of the fields that change from a day on."""
    if not isinstance(fields, Mapping) or not fields:
        raise ValueError("fields are wanted, e.g. `{floor_area_m2: 400}`")
    for name in fields:
        if name in FIXED_FIELDS:
            raise ValueError(
                f"{name} cannot change from a day on: {FIXED_FIELDS[name]};"
                " write it beside `changes`, or give the store a new id from that day on"
            )
        if name not in CHANGEABLE:
            known = ", ".join(CHANGEABLE)
            raise ValueError(f"unknown field {shorten_value(name)}; known are {known}")
    entry = _ENTRY.validate_python(fields)
    return {name: getattr(entry, name) for name in fields}


@STRICT_FIELDS
@dataclass(frozen=True)
class StoreEntry:
    """The fields of one store in the file; None where the file has no value.

    `numbering`: how often the receipt numbers of its tills begin again; `sensors` by serial;
    `day_starts`: when its days begin, by its clock; `networks`: those of its WiFi; `access_points`:
    those that are expected to hear; `country`: code of ISO 3166-1, `subdivision`: its part that
    decides holidays; `tills`: their number; `groups`: those that it belongs to; `rounding`: how its
    tills round; `visits`: the rules for its WiFi; `closed`: the first local day on which it is
    closed for good; `delisted`: the first local day on which an item is no longer sold, by item id.
    `changes`: the fields that have another value from a local day on, by that day, ascending.
    """

    name: kinds.Text | None = None
    tz: kinds.ZoneName | None = None
    currency: kinds.CurrencyCode | None = None
    numbering: kinds.NumberingWord | None = None
    sensors: Sensors = field(default_factory=dict)
    day_starts: kinds.DayStart = time(0)
    networks: kinds.Names = ()
    access_points: kinds.AddressNames = ()
    country: kinds.CountryCode | None = None
    subdivision: kinds.Text | None = None
    coordinates: kinds.StorePosition | None = None
    opening_hours: kinds.Hours | None = None
    floor_area_m2: kinds.FloorArea | None = None
    tills: kinds.Tills | None = None
    groups: kinds.Groups = ()
    rounding: kinds.RoundingName | None = None
    visits: Visits | None = None
    closed: FileDay | None = None
    delisted: Mapping[str, FileDay] = field(default_factory=dict)
    changes: Annotated[
        Mapping[FileDay, Annotated[Mapping[str, Any], PlainValidator(_read_change)]],
        AfterValidator(lambda changes: dict(sorted(changes.items()))),
    ] = field(default_factory=dict)

    def valid_on(self, day: date) -> "StoreEntry":
        """The entry that is valid on a local day of the store, without changes."""
        if not self.changes:
            return self
        values: dict[str, Any] = {"changes": {}}
        for first_day, changed in self.changes.items():
            if first_day <= day:
                values |= changed
        return replace(self, **values)

    def holidays(self, day: date) -> HolidayNames:
        """The names of a local day's holidays, at the place where the store is on that day."""
        entry = self.valid_on(day)
        return holiday_names(entry.country, entry.subdivision, day)

    def open_spans(self, day: date, zone: ZoneInfo) -> list[TimeRange] | None:
        """The ranges in which the store is open on a local day; None if its hours are not known."""
        hours = self.valid_on(day).opening_hours
        if hours is None:
            return None
        spans = hours.spans(day, is_holiday=bool(self.holidays(day)))
        return [*open_spans(day, spans, zone)]

    def access_point_days(self) -> Iterator[tuple[str, date, date]]:
        """Each access point with the local days of its listing: from inclusive, to exclusive.

        An access point that stays across a change has two stretches of days.
        """
        for first_day, beyond in pairwise((date.min, *self.changes, date.max)):
            if first_day < beyond:
                for name in self.valid_on(first_day).access_points:
                    yield name, first_day, beyond

    def clock(self, default_zone: str) -> DayClock:
        """The store's clock; `default_zone`: the IANA name of its zone where the file has none."""
        days = [day for day, changed in self.changes.items() if not _CLOCK.isdisjoint(changed)]
        clocks = []
        for day in (date.min, *days):
            entry = self.valid_on(day)
            clocks.append(DatedClock(day, ZoneInfo(entry.tz or default_zone), entry.day_starts))
        return DayClock(tuple(clocks))

    def to_fields(self) -> dict[str, Any]:
        """The entry as in the file, of plain types; fields with their default are left out."""
        values = _ENTRY.dump_python(self, mode="json", exclude={CHANGES}, exclude_defaults=True)
        shown = {name: value for name, value in values.items() if value not in _EMPTY}
        changes = {str(day): _plain_change(changed) for day, changed in self.changes.items()}
        return shown | ({CHANGES: changes} if changes else {})


_ENTRY = TypeAdapter(StoreEntry)


def _plain_change(changed: Mapping[str, Any]) -> dict[str, Any]:
    """A change as in the file; a field that is emptied from a day on is included."""
    dump = partial(_ENTRY.dump_python, StoreEntry(**changed), mode="json", include={*changed})
    return dict(dump() | dump(exclude_defaults=True))


def load_stores(file: Path | None) -> dict[str, StoreEntry]:
    """The file's stores by id; empty without a file. Raises BadSettings as parse_stores()."""
    if file is None:
        return {}
    try:
        return parse_stores(file.read_bytes(), file)
    except OSError as error:
        raise _unreadable_error(file, _SETTING, error) from error


def parse_stores(content: bytes, file: Path, named_by: str = _SETTING) -> dict[str, StoreEntry]:
    """The stores of a stores file with this content, by id; `named_by`: what names the file.

    Raises BadSettings that names file, store, field and fix.
    """
    try:
        stores = parse_yaml(content) or {}
    except ValueError as error:
        raise _unreadable_error(file, named_by, error) from error
    if not isinstance(stores, dict):
        wanted = "store ids with their fields are wanted, e.g. `367: {currency: EUR}`"
        raise BadSettings(f"{named_by}: {file}: {wanted}")
    try:
        entries = _STORES.validate_python(stores)
    except ValidationError as error:
        found = "; ".join(f"store {problem}" for problem in list_problems(error, _WORDS))
        raise BadSettings(f"{file}: {found}") from error
    _refuse_conflicts(file, entries)
    return entries


def _unreadable_error(file: Path, named_by: str, error: Exception) -> BadSettings:
    return BadSettings(f"{named_by}: {file} cannot be read as YAML: {' '.join(str(error).split())}")


class _ExclusiveResource(NamedTuple):
    """A resource that only one store may have, and the local days of that: from, to exclusive."""

    kind: str
    # In the file, and for comparison.
    spelling: str
    name: str
    first_day: date = date.min
    beyond: date = date.max


def _exclusive_resources(entry: StoreEntry) -> Iterator[_ExclusiveResource]:
    for serial in entry.sensors:
        yield _ExclusiveResource("sensor", serial, normalise_serial(serial))
    yield from (_ExclusiveResource("network", network, network) for network in entry.networks)
    for address, first_day, beyond in entry.access_point_days():
        if is_address(address):
            yield _ExclusiveResource("access point", address, address, first_day, beyond)


def _refuse_conflicts(file: Path, entries: Mapping[str, StoreEntry]) -> None:
    """Raise BadSettings if two stores share a sensor, a network, or on one day an access point."""
    owners: dict[tuple[str, str], list[tuple[str, _ExclusiveResource]]] = {}
    for store_id, entry in entries.items():
        for resource in _exclusive_resources(entry):
            known = owners.setdefault((resource.kind, resource.name), [])
            for owner, other in known:
                if resource.first_day < other.beyond and other.first_day < resource.beyond:
                    day = max(resource.first_day, other.first_day)
                    raise _conflict_error(f"{file}: store {store_id}", resource, owner, day)
            known.append((store_id, resource))


def _conflict_error(where: str, resource: _ExclusiveResource, owner: str, day: date) -> BadSettings:
    since, fix = "", f"take it out of `{resource.kind.replace(' ', '_')}s` of one of the two"
    if day > date.min:
        since, fix = f" on {day}", f"{fix}, under `changes` from that day on"
    return BadSettings(
        f"{where}: {resource.kind} {resource.spelling} is that of store {owner} already{since};"
        f" it counts once, for one store: {fix}"
    )


def _check_entry(entry: StoreEntry) -> StoreEntry:
    """The entry. Raises ValueError if its fields do not fit each other."""
    # The entry is checked before every change, and after each: fields that fit today may not then.
    for first_day in (date.min, *entry.changes):
        since = "" if first_day == date.min else f"changes.{first_day}: "
        _refuse_inconsistent(since, entry.valid_on(first_day))
    _refuse_odd_days(entry)
    return entry


def _refuse_odd_days(entry: StoreEntry) -> None:
    """Raise ValueError if a change of the clock would make a day end before it begins."""
    if any("tz" in changed for changed in entry.changes.values()) and entry.tz is None:
        raise ValueError(
            "changes: tz is given, and the one before is not; name it beside `changes`"
        )
    try:
        # Without a change of the zone none has to be named: the default holds before and after.
        odd = irregular_days(entry.clock("UTC"), _LONGEST_DAY)
    except OverflowError as error:
        reason = "changes: the first day lies at the end of the calendar; write a later one"
        raise ValueError(reason) from error
    for day in odd:
        raise ValueError(
            f"changes.{day + timedelta(1)}: by the new clock the day before would end"
            " before it begins, or last for more than 48 hours; let it hold from another day on,"
            " or give the store a new id"
        )


def _refuse_inconsistent(since: str, entry: StoreEntry) -> None:
    """Raise ValueError if one field does not fit another."""
    if entry.subdivision is not None:
        if entry.country is None:
            raise ValueError(f"{since}subdivision: name the country that it is a part of too")
        if entry.subdivision not in (known := subdivisions(entry.country)):
            raise ValueError(
                f"{since}subdivision {entry.subdivision!r} is no part of {entry.country} whose"
                f" holidays are known; there are {', '.join(known) or 'none: leave it out'}"
            )
    if entry.opening_hours is None:
        return
    minutes = entry.day_starts.hour * 60 + entry.day_starts.minute
    for spans in (*entry.opening_hours.weekdays, entry.opening_hours.holidays or ()):
        # The span would lie in the day before, by day_starts, and in its own, by its weekday.
        if early := [span for span in spans if span.opens < minutes]:
            raise ValueError(
                f"{since}opening_hours: {early[0]} begins before the store's day does"
                f" (day_starts {entry.day_starts:%H:%M}); tell it as the end of the day before"
            )


# A store of which nothing is known is listed by its id alone.
_OR_NOTHING = BeforeValidator(lambda fields: fields or {})
_FileEntry = Annotated[StoreEntry, AfterValidator(_check_entry), _OR_NOTHING]
_STORES = TypeAdapter(dict[Identifier, _FileEntry])
_WORDS = {**FIELD_WORDS, CHANGES: "days with fields, e.g. `2026-05-01: {floor_area_m2: 400}`"}


def load_families(settings: Settings) -> dict[str, Family]:
    """Every family by name, with the visit rules of the stores file. Raises BadSettings."""
    rules = store_visit_rules(load_stores(settings.stores_file), settings.default_timezone)
    return {
        name: replace(family, visit_rules=rules) if family.reading else family
        for name, family in FAMILIES.items()
    }


def store_visit_rules(entries: Mapping[str, StoreEntry], default_zone: str) -> StoreVisitRules:
    """The rules of all stores whose rules differ, or once differed, from the defaults."""
    rules = {}
    for store, entry in entries.items():
        if entry.visits or any(changed.get("visits") for changed in entry.changes.values()):
            rules[store] = tuple(_to_dated_rules(entry, default_zone))
    return StoreVisitRules(rules)


def _to_dated_rules(entry: StoreEntry, default_zone: str) -> Iterator[DatedVisitRules]:
    first = entry.visits or VisitEntry()
    yield DatedVisitRules(EVER, first.rules, first.revision)
    clock = entry.clock(default_zone)
    for day, changed in entry.changes.items():
        # Rules begin by the store's own clock, like its key periods.
        if (visits := changed.get("visits")) is not None:
            begins = clock.start_of_day(day).timestamp()
            yield DatedVisitRules(int(begins) // MINUTE_SECONDS, visits.rules, visits.revision)
