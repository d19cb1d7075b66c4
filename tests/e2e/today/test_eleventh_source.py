"""A source that the product has never heard of: a folder named by TALLY_SOURCES goes through the
whole loop, as processes, beside the sources of the product.

The tests of the class follow one another: each fixture is one step of the story.
"""

import json
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tally.time.instants import format_utc
from tally.time.windows import WINDOW, window_start
from tests.e2e.today.conftest import WINDOWS_ASKED
from tests.support import http
from tests.support.clients.gateway_client import GatewayClient
from tests.support.stack.loop import Loop, wait_until

PATH, METRIC = "/v1/events/queues", "waiting_time"
# Of what is no sum: the greatest, the median and the number of different ones.
EXTREMES = ("longest_wait", "median_queue", "cameras")
STORES = ("367", "406")
# Far beyond the hour that the source's descriptor keeps a window open.
LATE = timedelta(hours=7)

# By store, start of the window and queue.
Cell = tuple[str, datetime, str]


class Interval(NamedTuple):
    """What one camera counted in five minutes."""

    store: str
    camera: str
    queue: str
    start: datetime
    arrived: int
    waited_seconds: int

    @property
    def longest_wait(self) -> int:
        """Seconds."""
        return self.waited_seconds // 2 + self.arrived

    @property
    def queue_length(self) -> int:
        """Persons."""
        return self.arrived % 7

    @property
    def message(self) -> bytes:
        """As the camera sends it."""
        named = {
            "store_id": self.store,
            "device_id": self.camera,
            "queue": self.queue,
            "happened_at": format_utc(self.start),
            "interval_seconds": 300,
            "arrived": self.arrived,
            "waited_seconds": self.waited_seconds,
            "longest_wait": self.longest_wait,
            "queue_length": self.queue_length,
        }
        return json.dumps(named).encode()


class Story(NamedTuple):
    """The intervals on time, in order, and one that is sent hours after its window has closed."""

    on_time: list[Interval]
    late: Interval

    @property
    def span(self) -> tuple[datetime, datetime]:
        """Whole windows that hold all of them."""
        return window_start(self.late.start), window_start(self.on_time[-1].start) + WINDOW


def story(now: datetime) -> Story:
    """Two hours of two stores, of two queues each, and a late interval of the first store."""
    first = window_start(now) - timedelta(hours=2)
    on_time = [
        Interval(
            store, f"{queue}-1", queue, first + number * timedelta(minutes=5), number, 60 + rank
        )
        for number in range(24)
        for rank, store in enumerate(STORES)
        for queue in ("tills", "returns")
    ]
    return Story(on_time, Interval("367", "tills-1", "tills", first - LATE, 3, 1000))


def waiting(intervals: Iterable[Interval]) -> dict[Cell, int]:
    """Seconds waited by store, window and queue, added up here."""
    sums: Counter[Cell] = Counter()
    for one in intervals:
        sums[one.store, window_start(one.start), one.queue] += one.waited_seconds
    return dict(sums)


def extremes(intervals: Iterable[Interval]) -> dict[Cell, tuple[int, int, int]]:
    """By store, window and queue the longest wait, the median queue and the cameras, by hand."""
    by_cell = defaultdict[Cell, list[Interval]](list)
    for one in intervals:
        by_cell[one.store, window_start(one.start), one.queue].append(one)
    return {
        cell: (
            max(one.longest_wait for one in some),
            sorted(one.queue_length for one in some)[(len(some) - 1) // 2],
            len({one.camera for one in some}),
        )
        for cell, some in by_cell.items()
    }


class Ledger(NamedTuple):
    """What an audit of the ledger found, and time.monotonic() of then."""

    found: dict[str, Any]
    read_at: float


class TestEleventhSource:
    @pytest.fixture(scope="package")
    @classmethod
    def sent(cls, loop: Loop, gateway: GatewayClient) -> Story:
        """Everything on time, each tenth twice, until it is served."""
        told = story(datetime.now(UTC))
        messages = [one.message for one in told.on_time]
        gateway.post(PATH, messages)
        gateway.post(PATH, messages[::10])
        wait_until(
            lambda: values(rows(loop, told)) == waiting(told.on_time),
            180,
            "the intervals on time are served",
        )
        return told

    @pytest.fixture(scope="package")
    @classmethod
    def ledger(cls, loop: Loop, gateway: GatewayClient, sent: Story) -> Ledger:
        """With the late interval sent, before any rebuild: the audit returns when the master
        holds everything."""
        gateway.post(PATH, [sent.late.message])
        return Ledger(loop.json("audit", "--only", "ledger"), time.monotonic())

    @pytest.fixture(scope="package")
    @classmethod
    def rebuilt(cls, loop: Loop, ledger: Ledger) -> None:
        """After the rebuild that this story shares with others."""
        loop.rebuild_all_since(ledger.read_at)

    def test_the_speed_layer_serves_its_metric_by_its_axis(self, loop: Loop, sent: Story) -> None:
        served = rows(loop, sent)

        assert values(served) == waiting(sent.on_time)
        assert {row["source"] for row in served.values() if row["value"]} == {"speed"}
        assert {row["status"] for row in served.values()} == {"provisional"}

    def test_the_speed_layer_serves_what_is_no_sum(self, loop: Loop, sent: Story) -> None:
        assert served_extremes(loop, sent) == extremes(sent.on_time)

    def test_a_bad_example_is_refused_at_its_own_path(
        self, gateway: GatewayClient, sent: Story
    ) -> None:
        bad = sent.late._replace(arrived=-1)

        answer = gateway.offer(PATH, bad.message, "application/json")

        (refused,) = answer.json()["rejected"]
        assert (answer.status_code, refused["errors"][0]["field"]) == (422, "/arrived")

    def test_the_ledger_knows_its_topics_and_the_late_interval(
        self, sent: Story, ledger: Ledger
    ) -> None:
        committed: Counter[str] = Counter()
        for line in ledger.found["ledgers"]:
            committed[line["topic"]] += line["committed"]

        count = len(sent.on_time) + len(sent.on_time[::10]) + 1
        assert ledger.found["ok"]
        assert (committed["raw-queues"], committed["queues"]) == (count, count)
        assert ledger.found["beside"]["late_pending"] == 1

    def test_the_rebuild_counts_the_late_interval_too(
        self, loop: Loop, sent: Story, rebuilt: None
    ) -> None:
        served = rows(loop, sent)

        assert values(served) == waiting([*sent.on_time, sent.late])
        assert {row["source"] for row in served.values() if row["value"]} == {"batch"}

    def test_the_rebuild_serves_what_is_no_sum(
        self, loop: Loop, sent: Story, rebuilt: None
    ) -> None:
        assert served_extremes(loop, sent) == extremes([*sent.on_time, sent.late])

    def test_a_ratio_to_a_family_of_the_product_without_records_is_not_known(
        self, loop: Loop, sent: Story, rebuilt: None
    ) -> None:
        asked = ask(loop, sent, "367", "waiting_time_per_visitor", grain="15m")

        # Nobody has said how many visitors there were: neither a number nor a zero.
        told = {(row["value"], row["source"], row["complete"]) for row in asked}
        assert told == {(None, "missing", False)}

    def test_the_whole_of_its_queues_is_their_sum(
        self, loop: Loop, sent: Story, rebuilt: None
    ) -> None:
        whole = ask(loop, sent, "367", grain="15m")

        own = [one.waited_seconds for one in (*sent.on_time, sent.late) if one.store == "367"]
        assert sum(row["value"] or 0 for row in whole) == sum(own)

    def test_the_audit_against_the_master_holds_for_its_parts(
        self, sent: Story, rebuilt: None, audited: dict[str, Any]
    ) -> None:
        everything = [*sent.on_time, sent.late]
        windows = {(one.store, window_start(one.start)) for one in everything}
        queues = audited["master"]["queues"]
        assert (audited["ok"], queues["windows"], queues["equal"]) == (
            True,
            len(windows),
            len(windows),
        )
        assert queues["totals"] == {
            "arrived": sum(one.arrived for one in everything),
            "waited_seconds": sum(one.waited_seconds for one in everything),
        }
        assert audited["http"]["windows"] == audited["http"]["equal"] >= WINDOWS_ASKED

    def test_its_documents_are_written_with_those_of_the_product(
        self, loop: Loop, tmp_path: Path
    ) -> None:
        command = [sys.executable, "-m", "ops.docs", "--out", str(tmp_path)]

        subprocess.run(command, env=loop.environment, check=True)

        page = (tmp_path / "docs" / "generated" / "sources.md").read_text("utf-8")
        assert "| `waited_seconds` | sum | person-seconds |" in page and "## sales" in page


def rows(loop: Loop, told: Story, metric: str = METRIC) -> dict[Cell, dict[str, Any]]:
    """The metric's rows by quarter hour and queue, of every store that the API knows by now."""
    return {
        (store, datetime.fromisoformat(row["start"]).astimezone(UTC), row["by"]["queue"]): row
        for store in STORES
        for row in ask(loop, told, store, metric, grain="15m", by="queue")
    }


def served_extremes(loop: Loop, told: Story) -> dict[Cell, tuple[Any, ...]]:
    """The values of EXTREMES by cell, of the cells in which a camera has told."""
    by_metric = [rows(loop, told, metric) for metric in EXTREMES]
    seen = [cell for cell, row in by_metric[-1].items() if row["value"]]
    return {cell: tuple(found[cell]["value"] for found in by_metric) for cell in seen}


def ask(
    loop: Loop, told: Story, store: str, metric: str = METRIC, **asked: str
) -> list[dict[str, Any]]:
    """Rows of the API's answer; none as long as it knows nothing of the store."""
    start, end = told.span
    span = {"from": format_utc(start), "to": format_utc(end)}
    answer = http.get(
        f"http://{loop.settings.api}/v1/metrics/{metric}",
        params={"store": store, "limit": "10000", **span, **asked},
        timeout=300,
    )
    if answer.status_code == httpx.codes.NOT_FOUND:
        return []
    found: list[dict[str, Any]] = answer.raise_for_status().json()["rows"]
    return found


def values(found: dict[Cell, dict[str, Any]]) -> dict[Cell, int]:
    """The values that are not zero."""
    return {cell: row["value"] for cell, row in found.items() if row["value"]}
