"""A counter whose clock fell back to 1970, and networks as their makers send them (a body of
Meraki's version 2, a minute of a mall), through the running stack: 0 wrong after a rebuild."""

import json
from datetime import UTC, datetime, time, timedelta
from time import monotonic
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import httpx
import pytest
from deltalake import DeltaTable

from tally.time.instants import format_utc
from tally.time.windows import window_start
from tests.support import http
from tests.support.clients.gateway_client import GatewayClient
from tests.support.clients.producers import PlacedMessage, produced
from tests.support.sources import mall, meraki
from tests.support.stack.loop import Loop
from tests.support.twin import night

COUNTER, OLD_NETWORK, MALL = "clock-reset", "version-2", "mall"
# Of a body of version 2, which names no network.
ACCESS_POINT = "00:18:0a:00:34:01"
NETWORK = "L_36"


def store_entries() -> dict[str, Any]:
    """What the stores file has to say of them: where the last day is over, its key still there."""
    zone = {"tz": night.entry()["tz"]}
    return {
        OLD_NETWORK: {**zone, "access_points": [ACCESS_POINT]},
        MALL: {**zone, "networks": [NETWORK]},
    }


class SentNight(NamedTuple):
    """The hours in which it was, time.monotonic() when all had been sent, and the bytes of a mall's
    minute with the gateway's answer."""

    counted: datetime
    heard: datetime
    at: float
    bytes_of_mall: int
    answer: httpx.Response


class Number(NamedTuple):
    """A number of a quarter hour."""

    store: str
    metric: str
    start: datetime


def numbers(sent: SentNight) -> dict[Number, int]:
    """Each with what is right."""
    return {
        Number(COUNTER, "visitors_in", sent.counted): 8,
        # Heard for less than two minutes each: they only passed.
        Number(OLD_NETWORK, "outside_traffic", sent.heard): 2,
        Number(MALL, "outside_traffic", sent.heard): mall.CLIENTS,
    }


def wrong(loop: Loop, wanted: dict[Number, int]) -> dict[Number, Any]:
    """What is served in place of the numbers, where it is something else, or not of a rebuild."""
    found = {}
    for one, value in wanted.items():
        span = {"from": format_utc(one.start), "grain": "15m", "store": one.store}
        span["to"] = format_utc(one.start + timedelta(minutes=15))
        address = f"http://{loop.settings.api}/v1/metrics/{one.metric}"
        (row,) = http.get(address, params=span, timeout=300).raise_for_status().json()["rows"]
        if (row["value"], row["source"]) != (value, "batch"):
            found[one] = row
    return found


class TestClocksAndNetworks:
    @pytest.fixture(scope="package")
    @classmethod
    def sent_of_now(cls, loop: Loop, gateway: GatewayClient) -> SentNight:
        zone = ZoneInfo(night.entry()["tz"])
        midnight = datetime.combine(datetime.now(zone), time(), zone).astimezone(UTC)
        counted = window_start(datetime.now(UTC)) - timedelta(hours=2)
        heard = midnight - timedelta(hours=4)
        _send_counts(gateway, counted)
        # Of a sender that reads no answers a count of 1970 is a dead letter.
        first = json.dumps(_count("1970-01-01T00:30:00Z", 7, 7)).encode()
        now = datetime.now(UTC).timestamp()
        produced(loop.settings, [PlacedMessage("raw-traffic", 0, now, first)])
        _send_version_2(gateway, heard)
        body = mall.minute_of_a_mall(NETWORK, heard + timedelta(minutes=5), meraki.SECRET)
        answer = gateway.offer(meraki.PATH, body, "application/json")
        loop.catch_up()
        return SentNight(counted, heard, monotonic(), len(body), answer)

    @pytest.fixture(scope="package")
    @classmethod
    def rebuilt(cls, loop: Loop, sent_of_now: SentNight) -> None:
        """After the rebuild that this story shares with others."""
        loop.rebuild_all_since(sent_of_now.at)

    def test_each_sighting_of_a_mall_is_taken(self, sent_of_now: SentNight) -> None:
        told = sent_of_now.answer.json()

        # Beside the sightings, that three access points were there.
        sightings = mall.CLIENTS * mall.PLACES * mall.ACCESS_POINTS
        assert (sent_of_now.answer.status_code, told["rejected"]) == (202, [])
        assert told["accepted"] >= sightings > 10_000
        print(
            f"{sent_of_now.bytes_of_mall:,} bytes of a mall's minute, {told['accepted']:,} accepted"
        )

    def test_every_number_is_right_after_a_rebuild(
        self, loop: Loop, sent_of_now: SentNight, rebuilt: None
    ) -> None:
        wanted = numbers(sent_of_now)

        found = wrong(loop, wanted)
        assert found == {}, found
        planted = Number(MALL, "outside_traffic", sent_of_now.heard)
        assert [*wrong(loop, {**wanted, planted: mall.CLIENTS - 1})] == [planted]
        print(f"{len(wanted)} numbers compared, 0 wrong; a planted wrong one was found")

    def test_nobody_was_counted_in_1970(
        self, loop: Loop, sent_of_now: SentNight, rebuilt: None
    ) -> None:
        address = f"http://{loop.settings.api}/v1/stores"
        stores = http.get(address, params={"limit": "1000"}, timeout=300).json()["stores"]

        (first_day,) = [one["first_day"] for one in stores if one["store_id"] == COUNTER]
        assert first_day == sent_of_now.counted.date().isoformat()
        told = loop.json("refused", "--reason", "clock_reset")["refused"]
        # It came by no gateway, which would have said whose it is. Other tests have such letters.
        assert "" in {one["store"] for one in told}
        assert all("clock" in one["fix"] for one in told)

    def test_the_body_of_version_2_is_two_phones_and_its_access_point(
        self, loop: Loop, sent_of_now: SentNight, rebuilt: None
    ) -> None:
        master = DeltaTable(str(loop.settings.master_path)).to_pyarrow_table(
            columns=["value"], filters=[("store_id", "=", OLD_NETWORK)]
        )
        classes = [json.loads(one)["mac_class"] for one in master["value"].to_pylist()]

        assert sorted(classes) == ["access_point", "fixed", "fixed"]


def _send_counts(gateway: GatewayClient, at: datetime) -> None:
    """A counter whose battery was changed, and whose clock was set later."""
    told = [("1970-01-01T00:15:00Z", 31, 29), (format_utc(at), 8, 3)]
    body = "".join(json.dumps(_count(*one)) + "\n" for one in told).encode()
    answer = gateway.offer("/v1/events/traffic", body, "application/x-ndjson")
    assert answer.status_code == 202, answer.text
    reasons = [error["code"] for one in answer.json()["rejected"] for error in one["errors"]]
    assert (answer.json()["accepted"], reasons) == (1, ["clock_reset"])


def _count(happened_at: str, came: int, left: int) -> dict[str, Any]:
    return {
        "store_id": COUNTER,
        "device_id": "door-1",
        "happened_at": happened_at,
        "interval_seconds": 900,
        "in": came,
        "out": left,
    }


def _send_version_2(gateway: GatewayClient, at: datetime) -> None:
    nothing = dict.fromkeys(("ipv4", "ipv6", "location", "ssid", "os"))
    seen = format_utc(at + timedelta(minutes=2))
    observations = [
        {**nothing, "clientMac": address, "seenTime": seen, "seenEpoch": 0, "rssi": rssi}
        for address, rssi in (("3c:00:00:00:34:01", 36), ("3c:00:00:00:34:02", "22"))
    ]
    told = {
        "version": "2.1",
        "secret": meraki.SECRET,
        "type": "DevicesSeen",
        "data": {"apMac": ACCESS_POINT, "apFloors": [], "observations": observations},
    }
    answer = gateway.offer(meraki.PATH, json.dumps(told).encode(), "application/json")
    assert (answer.status_code, answer.json()["accepted"], answer.json()["rejected"]) == (
        202,
        3,
        [],
    )
