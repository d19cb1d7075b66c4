"""Sensors of the stores file: the store that each serial counts for, and its record format."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from tally.config.plain_values import STRICT_FIELDS, FileDay, Identifier, WholeNumber
from tally.time.windows import WINDOW_SECONDS

Clock = Literal["rfc3339", "unix_s", "unix_ms"]
# Where a counter is mounted: only a person who comes in at an entrance is a visitor of the store.
DoorRole = Literal["entrance", "inner_door", "zone", "shared_door", "staff_door"]


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
        Annotated[
            SensorEntry,
            AfterValidator(_check_sensor),
            BeforeValidator(_read_fields),
        ],
    ],
    AfterValidator(_check_names),
]
