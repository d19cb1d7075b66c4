"""What Meraki's cloud sends of last night, through the whole loop: visits, a late sighting that
joins two of them while readers ask, and the same after a rebuild.

Last night by the store's own clock, where it is three in the morning now: its key period is over,
and late sightings of it are still taken.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from time import monotonic
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest

from runtime.registry.stores import load_stores
from tally.time.instants import format_utc
from tests.support import http
from tests.support.clients.gateway_client import GatewayClient
from tests.support.sources import meraki
from tests.support.stack.loop import Loop, wait_until
from tests.support.twin.night import NETWORK, STORE

STRONG = -60
# Of a reader between two questions.
PAUSE_SECONDS = 0.2
# Two visits, 25 minutes apart, and what joins them later.
FIRST, SECOND, BETWEEN = range(6), range(30, 36), 18
APART, JOINED = (2, 720.0), (1, 2160.0)


@dataclass
class Night:
    """The hours of last night that are asked for, and time.monotonic() when all had been sent."""

    begin: datetime
    at: float = 0.0

    def heard(self, hour: int, minutes: Iterable[int]) -> list[tuple[datetime, int]]:
        return [(self.begin + timedelta(hours=hour, minutes=n), STRONG) for n in minutes]


@dataclass
class Readers:
    """What readers were answered meanwhile: values of the metric, by how often."""

    api: str
    night: Night
    hour: int
    found: dict[str, list[Any]] = field(
        default_factory=lambda: {"in_store_traffic": [], "stay_time": []}
    )

    def ask(self, metric: str) -> Any:
        begin = self.night.begin + timedelta(hours=self.hour)
        asked = {
            "store": STORE,
            "from": format_utc(begin),
            "to": format_utc(begin + timedelta(hours=1)),
            "grain": "1h",
        }
        answer = http.get(f"http://{self.api}/v1/metrics/{metric}", params=asked, timeout=300)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        (row,) = answer.raise_for_status().json()["rows"]
        return row["value"]

    def both(self) -> tuple[Any, Any]:
        visits, stay = (self.ask(metric) for metric in self.found)
        return visits, stay

    def __enter__(self) -> "Readers":
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self._read, args=(name,)) for name in self.found]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()

    def _read(self, metric: str) -> None:
        while not self.over.wait(PAUSE_SECONDS):
            self.found[metric].append(self.ask(metric))
        # What is served at the end may be younger than the last question.
        self.found[metric].append(self.ask(metric))

    def changes(self) -> list[list[Any]]:
        """The values of each metric as they followed each other."""
        return [
            [one for place, one in enumerate(seen) if not place or seen[place - 1] != one]
            for seen in self.found.values()
        ]


class TestWifi:
    @pytest.fixture(scope="package")
    @classmethod
    def sent(cls, loop: Loop, gateway: GatewayClient) -> Night:
        """Two devices that come twice, and one later in the night that brings the store on."""
        zone = night_zone(loop)
        midnight = datetime.combine(datetime.now(zone), time(), zone)
        night = Night(midnight.astimezone(UTC) - timedelta(hours=6))
        visits = [*FIRST, *SECOND]
        heard = {
            "3c:00:00:00:00:01": night.heard(0, visits),
            "3c:00:00:00:00:02": night.heard(2, visits),
            "3c:00:00:00:00:03": night.heard(4, [0]),
        }
        send(gateway, heard)
        loop.catch_up()
        return night

    @pytest.fixture(scope="package")
    @classmethod
    def joined(cls, loop: Loop, gateway: GatewayClient, sent: Night) -> Readers:
        """A late sighting of the first device, with readers on."""
        readers = Readers(loop.settings.api, sent, 0)
        wait_until(lambda: readers.both() == APART, 300, "both visits are served")
        with readers:
            send(gateway, {"3c:00:00:00:00:01": sent.heard(0, [BETWEEN])})
            wait_until(lambda: readers.both() == JOINED, 300, "the joined visit is served")
        sent.at = monotonic()
        return readers

    @pytest.fixture(scope="package")
    @classmethod
    def rebuilt(cls, loop: Loop, joined: Readers) -> None:
        loop.rebuild_all_since(joined.night.at)

    def test_meraki_reads_its_validator_and_a_stranger_is_refused(
        self, loop: Loop, gateway: GatewayClient, sent: Night
    ) -> None:
        greeting = http.get(f"http://{loop.settings.gateway}{meraki.PATH}")
        body = meraki.body(NETWORK, {}, secret="guessed")
        refused = gateway.offer(meraki.PATH, body, "application/json")

        assert (greeting.status_code, greeting.text) == (200, meraki.VALIDATOR)
        assert refused.status_code == httpx.codes.FORBIDDEN

    def test_no_answer_counts_the_joined_visit_and_what_it_was_before(
        self, joined: Readers
    ) -> None:
        asked = [len(seen) for seen in joined.found.values()]
        print(f"{asked} answers while the sighting was on its way: {joined.changes()}")
        assert joined.changes() == [[2, 1], [720, 2160]] and min(asked) > 3

    def test_explain_shows_which_layer_has_it(self, loop: Loop, joined: Readers) -> None:
        told = explained(loop, joined.night, minutes=0)

        assert told["served"]["source"] == "speed"
        assert [row["visits"] for row in told["speed"]["rows"] if row["mac_class"] == "fixed"] == [
            1
        ]

    def test_rebuilt_windows_hold_the_joined_visit(
        self, loop: Loop, joined: Readers, rebuilt: None
    ) -> None:
        told = explained(loop, joined.night, minutes=0)

        assert joined.both() == JOINED
        assert told["served"]["source"] == "batch"
        assert told["served"]["rows"] == told["batch"]["rows"] == holding(told["speed"]["rows"])

    def test_late_sighting_behind_the_rebuild_waits_for_the_next_one_and_says_so(
        self, loop: Loop, gateway: GatewayClient, joined: Readers, rebuilt: None
    ) -> None:
        readers = Readers(loop.settings.api, joined.night, 2)
        assert readers.both() == APART
        with readers:
            send(gateway, {"3c:00:00:00:00:02": joined.night.heard(2, [BETWEEN])})
            wait_until(
                lambda: speed_visits(loop, joined.night) == 1, 60, "the speed layer has joined them"
            )
            # Of a day that the rebuild has: what it knows is told until the next one.
            assert readers.both() == APART
            wait_until(
                lambda: explained(loop, joined.night, 120)["dirty"], 60, "the master holds it"
            )
            assert explained(loop, joined.night, 120)["served"]["status"] == "provisional"
            loop.json("rebuild", "--dirty", "--family", "wifi")
            wait_until(lambda: readers.both() == JOINED, 300, "the rebuilt visit is served")
        print(f"with a rebuild in between: {readers.changes()}")
        assert readers.changes() == [[2, 1], [720, 2160]]


def night_zone(loop: Loop) -> ZoneInfo:
    zone = load_stores(loop.settings.stores_file)[STORE].tz
    assert zone is not None
    return ZoneInfo(zone)


def send(gateway: GatewayClient, heard: dict[str, list[tuple[datetime, int]]]) -> None:
    answer = gateway.offer(meraki.PATH, meraki.body(NETWORK, heard), "application/json")
    assert (answer.status_code, answer.json()["rejected"]) == (202, []), answer.text


def explained(loop: Loop, night: Night, minutes: int) -> dict[str, Any]:
    window = format_utc(night.begin + timedelta(minutes=minutes))
    asked = {"family": "wifi", "store": STORE, "window": window}
    answer = http.get(f"http://{loop.settings.api}/v1/explain", params=asked, timeout=300)
    found: dict[str, Any] = answer.raise_for_status().json()
    return found


def holding(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the classes of which nothing was heard, and that have said nothing."""
    return [row for row in rows if row["device_windows"] or row["observed_seconds"]]


def speed_visits(loop: Loop, night: Night) -> int:
    """Visits of the second device in the speed layer, over both windows."""
    told = (explained(loop, night, minutes)["speed"] for minutes in (120, 150))
    return sum(row["visits"] for one in told if one for row in one["rows"])
