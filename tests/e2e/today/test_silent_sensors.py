"""Of two doors one says each minute what it counted, the other only that it was there for a while:
what is served says which share of the time was seen, and who was silent."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tally.time.instants import format_utc
from tally.time.windows import WINDOW, window_start
from tests.support import http
from tests.support.clients.gateway_client import GatewayClient
from tests.support.stack.loop import Loop, wait_until

DOORS = "doors"


@pytest.fixture(scope="module")
def start(loop: Loop, gateway: GatewayClient) -> datetime:
    """The start of a quarter hour of two doors."""
    start = window_start(datetime.now(UTC)) - timedelta(hours=1)
    told = [
        {
            **{"device_id": "door-1", "happened_at": format_utc(start + timedelta(minutes=n))},
            **{"interval_seconds": 60, "in": 2, "out": 1},
        }
        for n in range(15)
    ]
    # The second counted nobody, for as long as it was there; it is heard twice, and counts once.
    there = {"device_id": "door-2", "happened_at": format_utc(start), "heartbeat": True}
    told += [there | {"interval_seconds": 300}] * 2
    gateway.post(
        "/v1/events/traffic", [json.dumps({"store_id": DOORS, **one}).encode() for one in told]
    )
    return start


def asked(loop: Loop, path: str, start: datetime, **more: str) -> Any:
    span = {"from": format_utc(start), "to": format_utc(start + WINDOW), "grain": "15m"}
    answer = http.get(f"http://{loop.settings.api}/v1/{path}", params={**span, **more})
    return answer.raise_for_status().json()


def test_a_door_that_fell_silent_leaves_the_number_estimated(loop: Loop, start: datetime) -> None:
    def row() -> Any:
        (found,) = asked(loop, "metrics/visitors_in", start, store=DOORS)["rows"]
        return found

    wait_until(lambda: (row()["value"], row()["events"]) == (30, 16), 300, "both doors are served")

    found = row()
    assert (found["coverage"], found["estimated"], found["complete"]) == (0.6666, True, False)


def test_the_door_that_fell_silent_is_named(loop: Loop, start: datetime) -> None:
    sensors = asked(loop, f"stores/{DOORS}/sensors", start)["sensors"]

    seen = {one["sensor"]: (one["expected_seconds"], one["observed_seconds"]) for one in sensors}
    print(seen)
    assert seen == {"door-1": (900, 900), "door-2": (900, 300)}
