"""The slide page that Tally began with: 240,808 outside (+0.7 %), 20,360 in the store (+17.8 %),
20 min 13 s (-0.5 %), from half a million sightings through the real stack."""

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from cassandra.cluster import Session

from runtime.connect import cassandra_session
from schemas import loader
from tests.support import http
from tests.support.clients import slide_page
from tests.support.clients.producers import PlacedMessage, produced
from tests.support.clients.slide_page import BEFORE, DAYS, PRINTED, STORE
from tests.support.stack.loop import Loop, running_loop, wait_until
from tests.support.twin.twin import arrive_by_the_sender

ARRIVES_AFTER_SECONDS = 5
REPORTS = {
    "outside_traffic_intensity": (240_808, 0.7),
    "in_store_traffic_intensity": (20_360, 17.8),
    "average_stay_time": (1_212.999, -0.5),
}


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    """The days served from batch, declared whole."""
    home = tmp_path_factory.mktemp("slides")
    with running_loop(home, "normaliser", "master", "api") as running:
        started = time.monotonic()
        send(running)
        with cassandra_session(running.settings) as session:
            wait_until(lambda: is_in_the_master(running, session), 900, "all is in the master")
        print(f"sent and in the master after {time.monotonic() - started:.0f} s")
        for span in (BEFORE, PRINTED):
            declared = running.run(
                "backfill", "declare", "wifi", "--days", span.days, "--source", "the slides"
            )
            assert declared.returncode == 0
        running.json("rebuild", "--dirty", "--family", "wifi")
        print(f"rebuilt after {time.monotonic() - started:.0f} s")
        yield running


def is_in_the_master(loop: Loop, session: Session) -> bool:
    """Whether all is; no speed layer runs here."""
    lag = loop.lag(session)
    return lag.normaliser + lag.master == 0


def send(loop: Loop) -> None:
    topic = loader.sources()["wifi"].raw_topic
    arrive_by_the_sender(loop.settings, [topic])
    later = timedelta(seconds=ARRIVES_AFTER_SECONDS)
    count = produced(
        loop.settings,
        (
            PlacedMessage(topic, 0, (at + later).timestamp(), body)
            for span in (BEFORE, PRINTED)
            for at, body in slide_page.sightings(span)
        ),
    )
    print(f"{count:,} sightings sent")


def report(loop: Loop, name: str) -> dict[str, Any]:
    asked = {
        "store": STORE,
        "from": PRINTED.first.isoformat(),
        "to": (PRINTED.first + timedelta(DAYS)).isoformat(),
    }
    answer = http.get(f"http://{loop.settings.api}/v1/reports/{name}", params=asked, timeout=60)
    assert answer.status_code == httpx.codes.OK, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize("name", REPORTS)
def test_report_is_as_printed(loop: Loop, name: str) -> None:
    value, change = REPORTS[name]

    told = report(loop, name)

    print({key: told[key] for key in ("value", "unit", "data_source", "change_percent")})
    assert (round(told["value"], 3), told["change_percent"]) == (value, change)
    assert (told["data_source"], told["complete"], told["coverage"]) == ("WiFi", True, 1.0)


def test_days_add_up_to_the_whole(loop: Loop) -> None:
    told = report(loop, "traffic_trend")

    assert len(told["series"]) == DAYS
    assert sum(day["value"] for day in told["series"]) == told["value"] == PRINTED.visits
    assert sum(day["previous"] for day in told["series"]) == BEFORE.visits


def test_visits_by_stay_time_are_in_their_bins(loop: Loop) -> None:
    told = report(loop, "visits_by_stay_time")

    by_bin = {one["from_minutes"]: one["value"] for one in told["series"]}
    assert {start: count for start, count in by_bin.items() if count} == {20: PRINTED.visits}


def test_page_of_the_store_shows_them_as_printed(loop: Loop) -> None:
    asked = {"store": STORE, "days": str(DAYS), "until": PRINTED.days.partition("..")[2]}

    page = http.get(f"http://{loop.settings.api}/", params=asked, timeout=60).text

    for text in ("240,808", "0.7 %", "20,360", "17.8 %", "20 min 13 s", "0.5 %", "WiFi"):
        assert text in page
