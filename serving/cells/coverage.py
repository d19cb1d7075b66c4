"""Sensor coverage: the observed and the expected seconds of the sensors behind a number.

Sensors of the stores file are expected while the store is open, or at all times where its hours are
not listed. A store without any sensor of a family expects nothing of it, and its coverage is not
known.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import reduce
from itertools import repeat, zip_longest
from math import floor
from typing import Any, Literal, NamedTuple, TypeAlias

from serving.questions.stores import Store
from tally.algebra.merge import Axes, Parts
from tally.algebra.parts import KeyedSpans, KeyedSum
from tally.events.identity import digest_text, sensor_key
from tally.families.family import Family
from tally.families.kind import ADDITIVE
from tally.time.windows import ONE_DAY, WINDOW, WINDOW_SECONDS, TimeRange, days_until


class SensorName(NamedTuple):
    """A sensor of a family by its name in records; no other sees what a sole observer misses."""

    family: str
    sensor: str
    is_sole_observer: bool


class SensorSeconds(NamedTuple):
    """Seconds for which a sensor was expected, and those for which it was there."""

    expected: int = 0
    observed: int = 0

    def plus(self, other: "SensorSeconds") -> "SensorSeconds":
        """The sum of both."""
        return SensorSeconds(self.expected + other.expected, self.observed + other.observed)

    @property
    def share(self) -> float | None:
        """The observed share with 4 decimals, rounded down; None where nothing is expected."""
        # Rounded down, so that a share below 1 never looks whole.
        return floor(10_000 * self.observed / self.expected) / 10_000 if self.expected else None


# The expected and observed seconds of each sensor in a window.
WindowSensorSeconds: TypeAlias = Sequence[tuple[SensorName, SensorSeconds]]
NO_SENSORS: Iterable[WindowSensorSeconds] = repeat(())


@dataclass(frozen=True)
class CoverageRule:
    """The share above which a number counts as whole, and the treatment of one below it."""

    threshold: float = 0.9
    below: Literal["estimate", "withhold"] = "estimate"

    def is_enough(self, share: float | None) -> bool:
        """Whether the share is above the threshold, is 1, or is not known."""
        # Above and not at it: a day of ten hours without the busiest one has exactly nine tenths.
        return share is None or share > self.threshold or share == 1


@dataclass
class SlotCoverage:
    """The expected and observed seconds of one stretch, by sensor."""

    rule: CoverageRule = CoverageRule()
    sensors: dict[SensorName, SensorSeconds] = field(default_factory=dict)

    def add(self, name: SensorName, seen: SensorSeconds) -> None:
        """Add one more window of a sensor."""
        self.sensors[name] = self.sensors.get(name, SensorSeconds()).plus(seen)

    def join(self, other: "SlotCoverage") -> None:
        """Add another stretch of the same store."""
        for name, seen in other.sensors.items():
            self.add(name, seen)

    @property
    def share(self) -> float | None:
        """The share of all sensors together; None where nothing is expected."""
        # One share of all seconds: a mean of shares would weigh a new sensor as much as an old one.
        whole = SensorSeconds()
        for seen in self.sensors.values():
            whole = whole.plus(seen)
        return whole.share

    @property
    def worst(self) -> tuple[float, str] | None:
        """The least share of the seconds of a sensor that sees alone, and its name, if any."""
        alone = [name for name in self.sensors if name.is_sole_observer]
        pairs = ((self.sensors[name].share, name.sensor) for name in alone)
        shares = ((share, sensor) for share, sensor in pairs if share is not None)
        return min(shares, default=None)

    @property
    def is_enough(self) -> bool:
        """Whether all sensors together, and each that sees alone, were there for long enough."""
        if not self.sensors:
            return True
        alone, _ = self.worst or (None, "")
        return self.rule.is_enough(self.share) and self.rule.is_enough(alone)

    @property
    def is_withheld(self) -> bool:
        """Whether a number of the stretch has to be withheld."""
        return self.rule.below == "withhold" and not self.is_enough

    def silent_sensors(self) -> list[tuple[float, str]]:
        """The share of seconds and the name of each sensor that missed some, the worst first."""
        return sorted(
            (seen.observed / seen.expected, name.sensor)
            for name, seen in self.sensors.items()
            if seen.observed < seen.expected
        )

    def to_fields(self) -> dict[str, float | bool | str]:
        """The fields of an answer, with shares of seconds; none where nothing is expected."""
        if (share := self.share) is None:
            return {}
        fields: dict[str, float | bool | str] = {"coverage": share}
        # A door is named only where one missed something.
        if self.worst is not None and self.worst[0] < 1:
            fields |= {"worst_coverage": self.worst[0], "worst_sensor": self.worst[1]}
        if self.is_withheld:
            return {**fields, "withheld": "coverage"}
        return {**fields, "estimated": not self.is_enough}


@dataclass(frozen=True)
class ExpectedSensor:
    """A sensor of a family: its name, its key in rows, and the local days of its installation."""

    name: SensorName
    key: int
    since: date | None = None
    until: date | None = None

    def is_there(self, day: date) -> bool:
        """Whether the sensor is installed on a local day."""
        return (self.since or day) <= day < (self.until or day + ONE_DAY)


class OpenWindow(NamedTuple):
    """A window's start (UTC), its local day, and the seconds for which sensors are expected."""

    start: datetime
    day: date
    seconds: int


# The sensors of a store by the family that they record; a family without any is absent.
SensorRoster: TypeAlias = Mapping[str, Sequence[ExpectedSensor]]


def list_sensors(store: Store, families: Iterable[Family]) -> SensorRoster:
    """The store's sensors of those families."""
    each = {family.name: family for family in families if family.listed_as}
    listed = {name: [*_find_sensors(store, family)] for name, family in each.items()}
    return {name: sensors for name, sensors in listed.items() if sensors}


def seconds_by_sensor(
    roster: SensorRoster, family: Family, values: Mapping[Axes, Parts], window: OpenWindow
) -> Iterator[tuple[SensorName, SensorSeconds]]:
    """The expected and observed seconds of each sensor in a window that has these values."""
    seconds = _seconds_by_key(family, values)
    for sensor in roster.get(family.name, ()):
        if sensor.is_there(window.day):
            observed = min(window.seconds, seconds.get(sensor.key, 0))
            yield sensor.name, SensorSeconds(window.seconds, observed)


def open_windows(store: Store, starts: Sequence[datetime]) -> list[OpenWindow]:
    """Each window with the seconds for which its store is open in it; starts (UTC) ascend."""
    if not starts:
        return []
    days = [store.clock.day(start) for start in starts]
    # Opening hours of the day before may end after midnight.
    among = days_until(days[0] - ONE_DAY, days[-1] + ONE_DAY)
    opened = (store.entry.open_spans(day, store.zone) for day in among)
    spans = sorted(span for of_day in opened for span in of_day or ())
    found, first = [], 0
    for start, day in zip(starts, days, strict=True):
        if store.entry.valid_on(day).opening_hours is None:
            found.append(OpenWindow(start, day, WINDOW_SECONDS))
            continue
        # Spans and windows ascend, so a span that is over stays over.
        while first < len(spans) and spans[first].end <= start:
            first += 1
        found.append(OpenWindow(start, day, _open_seconds(spans[first:], start)))
    return found


def _open_seconds(spans: Sequence[TimeRange], start: datetime) -> int:
    end, seconds = start + WINDOW, 0.0
    for opens, closes in spans:
        if opens >= end:
            break
        shared = min(closes, end) - max(opens, start)
        seconds += max(0.0, shared.total_seconds())
    return min(WINDOW_SECONDS, int(seconds))


def _find_sensors(store: Store, family: Family) -> Iterator[ExpectedSensor]:
    """The sensors that the stores file lists for the family, by serial or by name."""
    field = family.listed_as or ""
    listed: dict[date | None, Any] = {None: getattr(store.entry, field)}
    for day, changed in store.entry.changes.items():
        if field in changed:
            listed[day] = changed[field]
    # Each list holds until the day of the one after it.
    ends = [*listed][1:]
    for (since, sensors), until in zip_longest(listed.items(), ends):
        if not isinstance(sensors, Mapping):
            yield from (_to_sensor(family, name, since, until) for name in sensors)
            continue
        for serial, entry in sensors.items():
            # A number counts the people who came in at entrances: other doors have no part in it.
            if entry.role == "entrance":
                yield _to_sensor(family, entry.device_id or serial, entry.since, entry.until)


def _to_sensor(family: Family, name: str, *days: date | None) -> ExpectedSensor:
    # Records have the name and no serial.
    key = sensor_key(int(digest_text(name), 16))
    # In an additive family each person is counted by exactly one sensor.
    named = SensorName(family.name, name, is_sole_observer=family.kind is ADDITIVE)
    return ExpectedSensor(named, key, *days)


def _seconds_by_key(family: Family, values: Mapping[Axes, Parts]) -> dict[int, int]:
    """Seconds by sensor's key, of all rows of a window."""
    found: dict[int, int] = {}
    for part in family.parts:
        if isinstance(part, KeyedSpans | KeyedSum):
            of_rows = (parts.get(part.name, part.zero) for parts in values.values())
            whole = reduce(part.plus, of_rows, part.zero)
            for key, seconds in part.seconds_by_key(whole).items():
                found[key] = found.get(key, 0) + seconds
    return found
