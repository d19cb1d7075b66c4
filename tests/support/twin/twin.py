"""Twin stores for tests: what they send, when it arrives, what of it is counted, what is true.

Arrival is simulated: the raw topics of such a test take the time of arrival from who sends.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from math import inf
from pathlib import Path
from typing import NamedTuple
from zlib import crc32
from zoneinfo import ZoneInfo

import yaml

from ingest.senders.twin.people import Person, Phones, TwinStore, draw_people
from ingest.senders.twin.sensors import SensorMessage, make_messages
from ingest.senders.twin.stream import SentMessage, Transport, arrivals
from schemas import loader
from tally.config.settings import Settings
from tests.support.clients.producers import PlacedMessage, produced
from tests.support.oracles.plain_oracle import Cell, Event, Parts, counted_once, event_of
from tests.support.oracles.plain_visits import (
    PlainCell,
    PlainSighting,
    RulesOf,
    VisitCell,
    defaults,
    visit_cells,
)
from tests.support.stack.topic_settings import configure
from tests.support.twin.faults import Outage, hold_up, with_clock

SEED = 12
ZONES = ("Europe/Bratislava", "Asia/Kathmandu", "America/New_York", "UTC", "Pacific/Auckland")
# The second one closes after midnight.
CLOSES, DAY_STARTS = time(2), time(4)
FAST, SLOW = timedelta(days=1), timedelta(weeks=-1)
# By the beginning of a message's identity: a till a day fast, a counter and an access point a week
# slow.
WRONG_CLOCKS = {
    "pos/twin-1/3/": FAST,
    "traffic/twin-2/door-2/": SLOW,
    "wifi/twin-1/ap-3/": SLOW,
}
OUTAGE_HOURS = 3
FUTURE_SECONDS = 300


class Refused(NamedTuple):
    """How many messages become dead letters, by reason."""

    future_time: int
    key_destroyed: int


@dataclass(frozen=True)
class TwinStory:
    """Some stores over some local days, from each of the first ones on.

    `every_seconds` is how often a phone is heard that keeps its address, `crowd` how many pass the
    first store on a day, where that is another number.
    """

    stores: int
    days: int
    firsts: Sequence[date]
    passers: int = 300
    crowd: int | None = None
    every_seconds: float = 60.0
    seed: int = SEED
    people: dict[tuple[str, date], list[Person]] = field(default_factory=dict, compare=False)

    @cached_property
    def plans(self) -> list[TwinStore]:
        found = []
        for number in range(self.stores):
            zone = ZoneInfo(ZONES[number % len(ZONES)])
            closes = CLOSES if number == 1 else time(20)
            name = f"twin-{number + 1}"
            phones = Phones(steady_seconds=self.every_seconds)
            passers = self.passers if number else self.crowd or self.passers
            found.append(TwinStore(name, zone, closes=closes, passers=passers, phones=phones))
        return found

    @property
    def dates(self) -> list[date]:
        return [first + timedelta(number) for first in self.firsts for number in range(self.days)]

    def stores_file(self, folder: Path) -> Path:
        """What a stores file has to say of them."""
        stores = {
            store.store_id: {"tz": store.zone.key}
            | ({"day_starts": f"{DAY_STARTS:%H:%M}"} if store.closes == CLOSES else {})
            for store in self.plans
        }
        file = folder / "stores.yaml"
        file.write_text(yaml.safe_dump(stores), "utf-8")
        return file

    @cached_property
    def sent(self) -> list[SentMessage]:
        """Everything of all stores, by when it arrives."""
        found: list[SentMessage] = []
        for store in self.plans:
            made: list[SensorMessage] = []
            for day in self.dates:
                people = draw_people(store, day, self.seed)
                self.people[store.store_id, day] = people
                made += make_messages(store, day, self.seed, people)
            on_their_way = arrivals(made, Transport(), self.seed, store.store_id)
            # The last store, on its first day.
            if store is self.plans[-1]:
                begin = datetime.combine(self.firsts[0], time(11), store.zone).timestamp()
                outage = Outage(begin, begin + 3600 * OUTAGE_HOURS)
                on_their_way = hold_up(on_their_way, outage, self.seed)
            found += [one._replace(message=_as_told(one.message)) for one in on_their_way]
        return sorted(found, key=lambda one: (one.send_at, one.message.identity))

    def send(self, settings: Settings, since: float = 0.0, until: float = inf) -> None:
        """Onto the raw topics, each store by the partition of its canonical records, so that the
        order of arrival is theirs too; of what arrives between the instants (seconds since 1970).
        """
        topics = {
            source.path.rpartition("/")[2]: source.raw_topic
            for source in loader.builtin_sources().values()
        }
        arrive_by_the_sender(settings, topics.values())
        produced(
            settings,
            (
                PlacedMessage(
                    topics[one.message.source],
                    self._partition(one, settings),
                    one.send_at,
                    one.message.body,
                )
                for one in self.sent
                if since <= one.send_at < until
            ),
        )

    def _partition(self, one: SentMessage, settings: Settings) -> int:
        return crc32(_store_of(one.message).encode()) % settings.partitions

    @cached_property
    def refused(self) -> Refused:
        """What becomes dead letters."""
        future = sum(
            at - one.send_at > FUTURE_SECONDS for one, at in ((o, _told_at(o)) for o in self.sent)
        )
        slow = [prefix for prefix, clock in WRONG_CLOCKS.items() if clock == SLOW]
        destroyed = sum(
            one.message.identity.startswith(tuple(slow)) and one.message.source == "wifi"
            for one in self.sent
        )
        return Refused(future, destroyed)

    def _accepted(self, source: str) -> Iterator[SentMessage]:
        for one in self.sent:
            is_future = _told_at(one) - one.send_at > FUTURE_SECONDS
            if one.message.source == source and not is_future:
                yield one

    def honest(self, source: str) -> dict[Cell, Parts]:
        """What the devices alone make whose clocks are right."""
        wrong = tuple(WRONG_CLOCKS)
        own = (one.message for one in self._accepted(source))
        return counted_once(event_of(one.body) for one in own if not one.identity.startswith(wrong))

    def misplaced(self, source: str) -> dict[Cell, Parts]:
        """What the others make, where they say that it was."""
        wrong = tuple(WRONG_CLOCKS)
        own = (one.message for one in self._accepted(source))
        return counted_once(event_of(one.body) for one in own if one.identity.startswith(wrong))

    def expected(self, source: str) -> dict[Cell, Parts]:
        """The final truth of what sensors sent: receipts, or door counts."""
        return counted_once(event_of(one.message.body) for one in self._accepted(source))

    def expected_speed(
        self, source: str, lateness: timedelta, settings: Settings
    ) -> tuple[dict[Cell, Parts], int]:
        """The same without what came after its window had closed, and how much that is: a copy of
        what had come before is none.

        A window closes when any record of its partition is later than its end by the lateness.
        """
        reached: dict[int, datetime] = {}
        counted: list[Event] = []
        seen: set[tuple[str, ...]] = set()
        late = 0
        for one in self._accepted(source):
            event = event_of(one.message.body)
            partition = self._partition(one, settings)
            so_far = reached.get(partition)
            at = datetime.fromtimestamp(_told_at(one), UTC)
            reached[partition] = max(at, so_far or at)
            end = event.cell[1] + timedelta(minutes=15)
            if so_far is not None and end + lateness <= so_far:
                late += event.identity not in seen
            else:
                counted.append(event)
            seen.add(event.identity)
        return counted_once(counted), late

    def sightings(self, until: float = inf) -> Iterator[PlainSighting]:
        """Those whose key is not destroyed, of what arrives before the instant."""
        for one in self._accepted("wifi"):
            if one.send_at >= until:
                continue
            if any(one.message.identity.startswith(prefix) for prefix in WRONG_CLOCKS):
                continue
            told = json.loads(one.message.body)
            at = datetime.fromisoformat(told["happened_at"])
            # A twin's devices are hashed by day: the hash alone tells the period.
            yield PlainSighting(
                told["store_id"], None, told["device_hash"], told["mac_class"], at, told["rssi_dbm"]
            )

    def visits(
        self, *, is_over: bool, rules_of: RulesOf = defaults, until: float = inf
    ) -> dict[VisitCell, PlainCell]:
        """What the sightings add up to, once all is over or as far as each store has come."""
        sightings = [*self.sightings(until)]
        reached: dict[str, datetime] = {}
        for one in sightings:
            reached[one.store] = max(one.at, reached.get(one.store, one.at))
        return visit_cells(sightings, None if is_over else reached, rules_of)


class Truth(NamedTuple):
    """What happened, and what was measured of it."""

    what: str
    true: float
    measured: float

    @property
    def percent(self) -> float:
        """By how much the measured is more than the true."""
        return 100 * (self.measured - self.true) / self.true

    def __str__(self) -> str:
        both = f"{self.true:,.0f} true, {self.measured:,.0f} measured"
        return f"{self.what}: {both}, {self.percent:+.1f} %"


def truths(story: TwinStory, visits: Mapping[VisitCell, PlainCell]) -> list[Truth]:
    """Visits and stays of those whose phone is heard once a minute."""
    steady = [
        person
        for people in story.people.values()
        for person in people
        if person.is_visitor and person.phone and person.phone.mac_class != "random_probe"
    ]
    stay = sum(person.left - person.came for person in steady) / len(steady)
    count = sum(cell.visits for cell in visits.values())
    seconds = sum(cell.stay_seconds for cell in visits.values())
    return [
        Truth("visits", len(steady), count),
        Truth("stay in seconds", stay, seconds / count),
    ]


def arrive_by_the_sender(settings: Settings, topics: Iterable[str]) -> None:
    """From now on the time of arrival on these topics is what the producer says."""
    configure(settings, topics, "message.timestamp.type", "CreateTime")


def _as_told(message: SensorMessage) -> SensorMessage:
    for prefix, clock in WRONG_CLOCKS.items():
        if message.identity.startswith(prefix):
            return with_clock(message, clock)
    return message


def _store_of(message: SensorMessage) -> str:
    return message.identity.split("/")[1]


def _told_at(one: SentMessage) -> float:
    for prefix, clock in WRONG_CLOCKS.items():
        if one.message.identity.startswith(prefix):
            return one.message.at + clock.total_seconds()
    return one.message.at
