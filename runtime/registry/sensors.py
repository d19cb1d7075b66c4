"""Sensors of the stores file: the store that each serial counts for, and its record format."""

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Literal

import msgspec

from tally.errors import BadSettings
from tally.events.identity import IDENTIFIER
from tally.time.windows import WINDOW_SECONDS

Clock = Literal["rfc3339", "unix_s", "unix_ms"]
# Where a counter is mounted: only a person who comes in at an entrance is a visitor of the store.
DoorRole = Literal["entrance", "inner_door", "zone", "shared_door", "staff_door"]


class SensorEntry(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
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

    device_id: str | None = None
    interval_seconds: Annotated[int, msgspec.Meta(ge=1, le=3600)] | None = None
    entries: tuple[str, ...] = ("in", "fw")
    exits: tuple[str, ...] = ("out", "bw")
    clock: Clock = "rfc3339"
    clock_ahead_seconds: Annotated[int, msgspec.Meta(ge=-60, le=60)] = 0
    status_seconds: Annotated[int, msgspec.Meta(ge=1, le=WINDOW_SECONDS)] = WINDOW_SECONDS
    door: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] | None = None
    role: DoorRole = "entrance"
    since: date | None = None
    until: date | None = None


def parse_sensors(where: str, fields: Any) -> dict[str, SensorEntry]:
    """The sensors of one store by serial; `where` names file and store.

    Raises BadSettings that names sensor, field and fix.
    """
    if not isinstance(fields, Mapping):
        raise BadSettings(
            f"{where}: sensors: serials with their fields are wanted, e.g. `accc00000001: {{}}`"
        )
    found = {
        str(serial): _parse_sensor(f"{where}: sensor {serial}", serial, fields[serial])
        for serial in fields
    }
    _refuse_duplicate_names(where, found)
    return found


def _refuse_duplicate_names(where: str, found: Mapping[str, SensorEntry]) -> None:
    """Raise BadSettings if two sensors have one name at the same time.

    Each would hide that the other is silent.
    """
    last: dict[str, SensorEntry] = {}
    # Sensors are ordered by their first day.
    since = {serial: entry.since or date.min for serial, entry in found.items()}
    for serial in sorted(found, key=since.__getitem__):
        entry = found[serial]
        name = entry.device_id or serial
        before = last.get(name)
        if before and since[serial] < (before.until or date.max):
            raise BadSettings(
                f"{where}: sensor {serial}: another has the device_id {name} too; end that one"
                " with `until`, and let this one begin with `since`"
            )
        last[name] = entry


def _parse_sensor(where: str, serial: object, fields: Any) -> SensorEntry:
    try:
        # All scalars of the file are text.
        entry = msgspec.convert(fields or {}, SensorEntry, strict=False)
    except msgspec.ValidationError as error:
        raise BadSettings(f"{where}: {error}") from error
    for name, value in (("the serial", serial), ("device_id", entry.device_id)):
        if value is not None and not (isinstance(value, str) and IDENTIFIER.fullmatch(value)):
            raise BadSettings(f"{where}: {name} is not 1 to 64 of A-Z a-z 0-9 . _ : -")
    if entry.since and entry.until and entry.until <= entry.since:
        raise BadSettings(f"{where}: until {entry.until} is not after since {entry.since}")
    if both := {*entry.entries} & {*entry.exits}:
        raise BadSettings(f"{where}: {min(both)!r} is among its entries and its exits")
    return entry
