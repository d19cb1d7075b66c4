"""How and when a message arrived, and the rules of this installation by which it is read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from zoneinfo import ZoneInfo

from ingest.installation.devices import DeviceRules, to_minutes
from ingest.installation.stores import StoreClocks, StoreMoney
from runtime.registry.store_fields import SensorEntry, parse_zone
from runtime.registry.stores import StoreEntry, load_stores
from tally.config.keys import load_digest_key
from tally.config.settings import Settings
from tally.errors import BadSettings
from tally.events.identity import normalise_serial
from tally.events.receipt_rules import SENT_LINE_TYPES
from tally.people.visits import MinuteSpan
from tally.time.day_clock import DatedPeriod, KeyDays
from tally.time.instants import format_utc

FIRST_NUMBERING_EPOCH = "0"
# How many characters of a local date name the run of receipt numbers.
_DATE_CHARACTERS = {"daily": 10, "yearly": 4}


@dataclass(frozen=True)
class Sensor:
    """A sensor by the stores file; one in no store has no zone, and its serial as its name."""

    store_id: str | None
    zone: ZoneInfo | None
    device_id: object
    entry: SensorEntry


@dataclass(frozen=True)
class Rules:
    """Settings that decide what a message becomes; the same for gateway and normaliser."""

    max_bytes: int
    future_tolerance: timedelta
    earliest_event: date
    money: StoreMoney
    loyalty_key: bytes
    # Of stores whose receipt numbers begin again: `daily` or `yearly`, by the stores' clocks.
    numberings: Mapping[str, str] = field(default_factory=dict)
    home: Path = Path(".tally")
    sensors: Mapping[str, Sensor] = field(default_factory=dict)
    clocks: StoreClocks = field(default_factory=StoreClocks)
    devices: DeviceRules = field(default_factory=DeviceRules)
    item_types: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_settings(cls, settings: Settings) -> "Rules":
        """The rules of these settings; reads the stores file once. Raises BadSettings."""
        default_zone = parse_zone(settings.default_timezone, "TALLY_DEFAULT_TIMEZONE:")
        stores = load_stores(settings.stores_file)
        clocks = StoreClocks.from_stores(stores, default_zone)
        # blake2b takes keys of at most 64 bytes, so a longer secret is digested first.
        secret = settings.loyalty_key.get_secret_value().encode()
        return cls(
            max_bytes=settings.max_message_bytes,
            future_tolerance=timedelta(seconds=settings.future_tolerance_seconds),
            earliest_event=settings.earliest_event,
            money=StoreMoney.from_settings(settings, stores, clocks),
            loyalty_key=blake2b(secret).digest() if secret else b"",
            numberings={name: store.numbering for name, store in stores.items() if store.numbering},
            home=settings.home,
            sensors=_sensors(stores, clocks),
            clocks=clocks,
            devices=DeviceRules.from_settings(settings, stores),
            item_types=_item_types(settings.poslog_item_types),
        )

    def key_period(self, store_id: str, instant: datetime) -> DatedPeriod:
        """The period in which a device that the store hears at the instant keeps its hash."""
        return KeyDays(self.devices.days).period(instant, self.clocks.clock(store_id))

    def open_minutes(self, store_id: str, period: DatedPeriod) -> list[MinuteSpan] | None:
        """When a store is open in a key period; None if its opening hours are not known."""
        return self.devices.opening.minutes(store_id, period, self.clocks.clock(store_id).zone)

    def numbering_epoch(self, store_id: str, happened_at: datetime) -> str:
        """The numbering epoch of a receipt that names none: the store's local day, or its year."""
        if store_id not in self.numberings:
            return FIRST_NUMBERING_EPOCH
        day = self.clocks.day(store_id, happened_at).isoformat()
        return day[: _DATE_CHARACTERS[self.numberings[store_id]]]

    def sensor(self, serial: object) -> Sensor:
        """The sensor with this serial, in any spelling."""
        listed = self.sensors.get(normalise_serial(serial)) if isinstance(serial, str) else None
        return listed or Sensor(None, None, serial, SensorEntry())

    def logic_serials(self, serial: object) -> list[str]:
        """The serials under which a device is listed: one for each line it counts at, or none."""
        known = isinstance(serial, str) and self._serials_by_device.get(normalise_serial(serial))
        return known or []

    def device_entries(self, store_id: str, device_id: str, at: datetime) -> Sequence[SensorEntry]:
        """A device's entries, or a default one; on the day of a change both, the later one last."""
        known = self._entries_by_name.get((store_id, device_id))
        if known is None:
            return (SensorEntry(),)
        day = self.clocks.day(store_id, at)
        started = [entry for entry in known if (entry.since or day) <= day]
        return [entry for entry in started if day <= (entry.until or day)] or known

    def is_closed(self, store_id: str, begins: datetime, seconds: int) -> bool:
        """Whether an interval lies wholly outside the opening hours; False if none are known."""
        if not self.devices.opening.has_hours(store_id):
            return False
        ends = begins + timedelta(seconds=seconds - 1)
        first, last = to_minutes(begins), to_minutes(ends)
        # The interval may cross from one of the store's days into the next.
        for period in {self.key_period(store_id, instant) for instant in (begins, ends)}:
            spans = self.open_minutes(store_id, period)
            if spans is None or any(opens <= last and first <= closes for opens, closes in spans):
                return False
        return True

    @cached_property
    def _serials_by_device(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for serial in self.sensors:
            for device in {serial, serial.rpartition(":")[0] or serial}:
                found.setdefault(device, []).append(serial)
        return found

    @cached_property
    def _entries_by_name(self) -> Mapping[tuple[object, object], list[SensorEntry]]:
        found: dict[tuple[object, object], list[SensorEntry]] = {}
        for sensor in self.sensors.values():
            found.setdefault((sensor.store_id, sensor.device_id), []).append(sensor.entry)
        for entries in found.values():
            entries.sort(key=lambda entry: entry.since or date.min)
        return found

    @cached_property
    def digest_key(self) -> bytes:
        """The installation's key for the digests of dead letters; created when first needed."""
        return load_digest_key(self.home)


@dataclass(frozen=True)
class Arrival:
    """When (Kafka timestamp, UTC) and where in the raw topic a message arrived."""

    received_at: datetime
    partition: int
    offset: int

    @cached_property
    def timestamp_text(self) -> str:
        """received_at as the canonical record carries it."""
        return format_utc(self.received_at)


def _sensors(stores: Mapping[str, StoreEntry], clocks: StoreClocks) -> dict[str, Sensor]:
    """All stores' sensors, by bare serial."""
    found: dict[str, Sensor] = {}
    for store_id, store in stores.items():
        zone = clocks.clock(store_id).zone
        for serial, entry in store.sensors.items():
            sensor = Sensor(store_id, zone, entry.device_id or serial, entry)
            found[normalise_serial(serial)] = sensor
    return found


def _item_types(text: str) -> dict[str, str]:
    """Line types by the vendor's word for them. Raises BadSettings that names the wrong word."""
    words = [word.strip() for word in text.split(",")]
    pairs = [word.partition("=") for word in words if word]
    for word, _, line_type in pairs:
        if line_type not in SENT_LINE_TYPES:
            taken = f"the kind is one of {', '.join(SENT_LINE_TYPES)}"
            raise BadSettings(f"TALLY_POSLOG_ITEM_TYPES: {word}={line_type}: {taken}")
    return {word: line_type for word, _, line_type in pairs}
