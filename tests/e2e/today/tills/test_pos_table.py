"""The table of what tills say (tests/support/sources/pos_table.yaml): each case as JSON and as
POSLog, each in a store of its own, served by the speed layer and, after a rebuild, by batch.

The tests follow one another: each fixture is one step of the story.
"""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import httpx
import pytest

from tally.time.instants import format_utc
from tally.time.windows import window_start
from tests.support import http
from tests.support.clients.gateway_client import GatewayClient
from tests.support.sources.pos_table import CASES, FORMS, messages, store_of
from tests.support.sources.poslog import poslog
from tests.support.stack.loop import Loop, wait_until

METRICS = ("transactions", "units", "revenue")
JSON_PATH, POSLOG_PATH = "/v1/events/pos", "/v1/events/pos/poslog"
# Values of the metrics, in their order, by store and start of the quarter hour.
Numbers = dict[tuple[str, datetime], list[Any]]


def wanted(anchor: datetime, layer: str) -> Numbers:
    """What the layer has to say of each window of each store."""
    found: Numbers = {}
    for number, case in enumerate(CASES):
        by_minute = case["windows"] | (case.get("speed", {}) if layer == "speed" else {})
        for form in FORMS:
            store = store_of(number, form)
            for minute, values in by_minute.items():
                found[store, anchor + timedelta(minutes=minute)] = values
            if layer == "batch":
                for days, values in case.get("days_ago", {}).items():
                    found[store, anchor + timedelta(days=days)] = values
    return found


def served(loop: Loop, cells: Numbers, source: str) -> Numbers:
    """The same windows as the API serves them; None of one that is not of this source."""
    found: Numbers = {}
    with httpx.Client(base_url=f"http://{loop.settings.api}", timeout=300) as client:
        for store, start in cells:
            found[store, start] = [
                _value(client, metric, store, start, source) for metric in METRICS
            ]
    return found


def _value(client: httpx.Client, metric: str, store: str, start: datetime, source: str) -> Any:
    span = {"from": format_utc(start), "to": format_utc(start + timedelta(minutes=15))}
    answer = client.get(f"/v1/metrics/{metric}", params={"store": store, "grain": "15m", **span})
    if answer.status_code == httpx.codes.NOT_FOUND:
        return None
    (row,) = answer.raise_for_status().json()["rows"]
    return row["value"] if row["source"] == source else None


def items_of(loop: Loop, store: str, anchor: datetime) -> tuple[list[Any], int]:
    """Receipts, units and revenue of all articles of a week, and what of the revenue they lack."""
    days = (anchor - timedelta(days=6), anchor + timedelta(days=2))
    span = {name: str(day.date()) for name, day in zip(("from", "to"), days, strict=True)}
    asked = {"store": store, "tz": "UTC", **span}
    path = f"http://{loop.settings.api}/v1/reports/items"
    answer = http.get(path, params=asked, timeout=300).raise_for_status().json()
    names = ("receipts", "units", "value")
    sums = [sum(one[name] for one in answer["series"]) for name in names]
    return sums, answer["unexplained_minor"]


class Sent(NamedTuple):
    """The hour of everything that was sent, and time.monotonic() when it had been."""

    anchor: datetime
    at: float


class TestPosTable:
    @pytest.fixture(scope="package")
    @classmethod
    def sent(cls, loop: Loop, gateway: GatewayClient) -> Sent:
        """Every case in both forms, until everything is in both layers."""
        anchor = window_start(datetime.now(UTC)) - timedelta(hours=1)
        for number, case in enumerate(CASES):
            told = [*messages(case, store_of(number, "json"), anchor)]
            gateway.post(JSON_PATH, [json.dumps(one).encode() for one in told])
            bodies = "".join(map(poslog, messages(case, store_of(number, "poslog"), anchor)))
            answer = gateway.offer(POSLOG_PATH, f"<POSLog>{bodies}</POSLog>".encode(), "text/xml")
            assert (answer.status_code, answer.json()["rejected"]) == (202, [])
        loop.catch_up()
        return Sent(anchor, time.monotonic())

    @pytest.fixture(scope="package")
    @classmethod
    def rebuilt(cls, loop: Loop, sent: Sent) -> None:
        """After the rebuild that this story shares with others."""
        loop.rebuild_all_since(sent.at)

    def test_speed_layer_has_the_numbers_of_the_table(self, loop: Loop, sent: Sent) -> None:
        cells = wanted(sent.anchor, "speed")
        wait_until(lambda: served(loop, cells, "speed") == cells, 300, "the table is served")

    def test_batch_has_the_numbers_of_the_table(
        self, loop: Loop, sent: Sent, rebuilt: None
    ) -> None:
        cells = wanted(sent.anchor, "batch")
        found = served(loop, cells, "batch")

        print(f"{len(cells) * len(METRICS)} numbers of {len(CASES)} cases in two forms compared")
        assert found == cells
        # A planted wrong number is found.
        (store, start), values = next(iter(cells.items()))
        assert found != cells | {(store, start): [values[0] + 1, *values[1:]]}

    def test_items_of_the_receipts_are_the_numbers_of_the_table(
        self, loop: Loop, sent: Sent, rebuilt: None
    ) -> None:
        loop.wait_for_receipts()
        cells = wanted(sent.anchor, "batch")

        found = {store: items_of(loop, store, sent.anchor) for store in {one for one, _ in cells}}

        # Each line is one of the article Milk, if it is one of an article.
        sums = {store: [0, 0, 0] for store in found}
        for (store, _), values in cells.items():
            sums[store] = [one + more for one, more in zip(sums[store], values, strict=True)]
        assert found == {store: (numbers, 0) for store, numbers in sums.items()}

    def test_audit_names_what_rules_left_out(self, rebuilt: None, audited: dict[str, Any]) -> None:
        assert audited["ok"] and audited["beside"]["waiting"] == 0
        # In both forms, and those of the cases of tills.
        assert audited["beside"]["left_out"] == {"not_finished": 6 + 4 + 2, "training": 2}
