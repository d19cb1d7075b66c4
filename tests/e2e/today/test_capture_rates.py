"""40 who came in and 60 who passed: 66.7 % and 40 %, under their two names, whatever doors count
that do not look outside."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tally.time.instants import format_utc
from tally.time.windows import WINDOW, window_start
from tests.support import http
from tests.support.clients.gateway_client import GatewayClient
from tests.support.stack.loop import Loop, wait_until

STORE = "capture"


@pytest.fixture(scope="module")
def doors(loop: Loop, gateway: GatewayClient) -> datetime:
    """A quarter hour of a door that looks outside, and of one that does not."""
    start = window_start(datetime.now(UTC)) - timedelta(hours=1)
    base = {"store_id": STORE, "happened_at": format_utc(start), "interval_seconds": 900}
    told = [
        base | {"device_id": "door-1", "in": 40, "out": 38, "passers_by": 60, "groups_in": 25},
        base | {"device_id": "door-2", "in": 500, "out": 490},
    ]
    gateway.post("/v1/events/traffic", [json.dumps(door).encode() for door in told])
    return start


def asked(loop: Loop, metric: str, start: datetime) -> Any:
    span = {"from": format_utc(start), "to": format_utc(start + WINDOW)}
    answer = http.get(
        f"http://{loop.settings.api}/v1/metrics/{metric}", params={"store": STORE, **span}
    )
    if answer.status_code == httpx.codes.NOT_FOUND:
        return None
    (row,) = answer.raise_for_status().json()["rows"]
    return row["value"]


def test_two_capture_rates_of_the_same_doors(loop: Loop, doors: datetime) -> None:
    wait_until(lambda: asked(loop, "visitors_in", doors) == 540, 300, "both doors are served")

    rates = {
        name: asked(loop, name, doors)
        for name in ("capture_rate_of_passers", "capture_rate_of_all")
    }

    # A door that knows no groups has as many as persons.
    assert asked(loop, "groups_in", doors) == 525
    print(rates)
    assert rates == {"capture_rate_of_passers": 0.666667, "capture_rate_of_all": 0.4}
