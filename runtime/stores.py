"""The stores file: what is known of a store besides its events."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, time
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml

from runtime.sensors import SensorEntry, sensor_entries
from tally.errors import BadSettings
from tally.identity import IDENTIFIER, bare_serial
from tally.money import CURRENCIES
from tally.windows import WINDOW_SECONDS

NUMBERINGS = ("daily", "yearly")
WINDOW_MINUTES = WINDOW_SECONDS // 60
_TEXTS = ("name", "tz", "currency", "numbering")
_FIELDS = (*_TEXTS, "sensors", "day_starts", "networks")


@dataclass(frozen=True)
class StoreEntry:
    """What the file says of one store; None where it says nothing.

    `numbering`: how often the receipt numbers of its tills begin again; `sensors` by serial;
    `day_starts`: when its days begin, by its clock; `networks`: those of its WiFi.
    """

    name: str | None = None
    tz: str | None = None
    currency: str | None = None
    numbering: str | None = None
    sensors: Mapping[str, SensorEntry] = field(default_factory=dict)
    day_starts: time = time(0)
    networks: tuple[str, ...] = ()


def store_entries(file: Path | None) -> dict[str, StoreEntry]:
    """The file's stores by id; none without a file.

    Raises BadSettings that names file, store, field and fix.
    """
    if file is None:
        return {}
    try:
        # Every scalar as its text: a store 0367 is not the number 247, and NO is not false.
        stores = yaml.load(file.read_text("utf-8"), Loader=yaml.BaseLoader) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadSettings(
            f"TALLY_STORES_FILE: {file} cannot be read as YAML: {' '.join(str(error).split())}"
        ) from error
    if not isinstance(stores, dict):
        raise BadSettings(
            f"TALLY_STORES_FILE: {file}: store ids with their fields are wanted,"
            " e.g. `367: {currency: EUR}`"
        )
    entries = {
        str(store_id): _entry(f"{file}: store {store_id}", store_id, fields)
        for store_id, fields in stores.items()
    }
    _refuse_shared(file, entries)
    return entries


def _refuse_shared(file: Path, entries: Mapping[str, StoreEntry]) -> None:
    """Raise BadSettings if two stores have one sensor, or one network."""
    owners: dict[tuple[str, str], str] = {}
    for store_id, entry in entries.items():
        named = [("sensor", serial, bare_serial(serial)) for serial in entry.sensors]
        named += [("network", network, network) for network in entry.networks]
        for kind, said, name in named:
            if (kind, name) in owners:
                raise BadSettings(
                    f"{file}: store {store_id}: {kind} {said} is that of store"
                    f" {owners[kind, name]} already; a {kind} counts once, for one store"
                )
            owners[kind, name] = store_id


def _entry(where: str, store_id: object, fields: object) -> StoreEntry:
    if not isinstance(store_id, str) or IDENTIFIER.fullmatch(store_id) is None:
        raise BadSettings(f"{where}: the id is not 1 to 64 of A-Z a-z 0-9 . _ : -")
    fields = fields or {}
    if not isinstance(fields, Mapping):
        raise BadSettings(
            f"{where}: fields are wanted, e.g. `{{currency: EUR}}`; known are {', '.join(_FIELDS)}"
        )
    for name, value in fields.items():
        if name not in _FIELDS:
            raise BadSettings(f"{where}: unknown field {name!r}; known are {', '.join(_FIELDS)}")
        if name in _TEXTS and (not isinstance(value, str) or not value):
            raise BadSettings(
                f"{where}: {name}: a text is wanted; leave the field out for the default"
            )
    texts = {name: value for name, value in fields.items() if name in _TEXTS}
    sensors = sensor_entries(where, fields["sensors"]) if "sensors" in fields else {}
    entry = StoreEntry(
        **texts,
        sensors=sensors,
        day_starts=_time_of_day(fields.get("day_starts", "00:00"), f"{where}: day_starts"),
        networks=_names(fields.get("networks", []), f"{where}: networks"),
    )
    if entry.tz is not None:
        zone_of(entry.tz, f"{where}: tz")
    if entry.currency is not None and entry.currency not in CURRENCIES:
        raise BadSettings(
            f"{where}: currency {entry.currency!r} is no currency of ISO 4217, e.g. EUR"
        )
    if entry.numbering not in (None, *NUMBERINGS):
        raise BadSettings(
            f"{where}: numbering {entry.numbering!r} is none of {', '.join(NUMBERINGS)};"
            " without it numbers never begin again"
        )
    return entry


def _time_of_day(told: object, where: str) -> time:
    try:
        found = datetime.strptime(str(told), "%H:%M").time()
    except ValueError as error:
        raise BadSettings(f"{where}: {told!r} is no time of day, e.g. 04:00") from error
    # A window must not lie in two days.
    if found.minute % WINDOW_MINUTES:
        raise BadSettings(f"{where}: {told!r} is no whole quarter of an hour, e.g. 04:00")
    return found


def _names(told: object, where: str) -> tuple[str, ...]:
    listed = told if isinstance(told, list) else [None]
    if not all(isinstance(one, str) and one for one in listed):
        raise BadSettings(f"{where}: a list of names is wanted, e.g. [L_1234]")
    return tuple(listed)


def zone_of(name: str, where: str) -> ZoneInfo:
    """The time zone of this name. Raises BadSettings."""
    try:
        return ZoneInfo(name)
    # OSError: `Europe` is a folder of zones, and a name may be too long for a file.
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadSettings(f"{where} {name!r} is no IANA time zone, e.g. Europe/Rome") from error
