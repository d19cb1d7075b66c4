"""How old what a reader sees is: `python -m bench.freshness` sells probe receipts under load.

The load is steady; they go through a whole local stack. Five probes a second, each of a store of
its own, beside 0, 100, 500 and 1,000 receipts a second of fifty other stores. Of each probe: when
the gateway had acknowledged it, when its canonical record could be read, when its window was
announced, when the API served it.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles

from confluent_kafka import TopicPartition
from rich.console import Console
from rich.table import Table

from bench.lib.compared import say
from bench.lib.contenders import Contender
from bench.lib.harness import arguments, own_environment
from bench.lib.subscribers import TIMEOUT_SECONDS
from ingest.senders.gateway_client import connect_gateway
from runtime.connect import kafka_consumer
from runtime.kafka.topics import read_ends
from runtime.process.files import REPOSITORY
from tally.config.settings import Settings
from tally.errors import ApiError
from tally.time.instants import format_utc
from tally.time.windows import WINDOW, window_start
from web.client import ApiClient

RECEIPTS_PATH = "/v1/events/pos"
SERVICES = ("normaliser", "gateway", "api", "speed", "receipts")
RATES = (0, 100, 500, 1_000)
PROBES_A_SECOND, POSTS_A_SECOND, LOAD_STORES, WARM_SECONDS = 5, 10, 50, 30.0
TOPICS = {"sales": "committed", "view-updates": "announced"}
STEPS = ("committed", "announced", "served")
_LINES = [{"item": "Milk 1l", "price": 0.99, "amount": 2}]
_receipt_numbers = iter(range(1, sys.maxsize))


@dataclass
class Probe:
    """One receipt: its store, when it happened, and when it reached each step.

    The steps are acknowledged, committed, announced and served, in monotonic seconds.
    """

    store: str
    at: datetime
    acknowledged: float
    seen: dict[str, float] = field(default_factory=dict)

    def seconds(self, step: str) -> float:
        """Seconds from the acknowledgement to the step."""
        return self.seen[step] - self.acknowledged


class Prober:
    """Sends probes, and observes them at every step."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.probes: dict[str, Probe] = {}
        self._stop, self._end = threading.Event(), threading.Event()
        self._consumer = kafka_consumer(settings, "bench-probes")
        # Each partition starts at its end, before the first probe is sent.
        self._consumer.assign(
            [
                TopicPartition(topic, number, end)
                for topic, partitions in read_ends(self._consumer, TOPICS, TIMEOUT_SECONDS).items()
                for number, end in partitions.items()
            ]
        )

    @contextmanager
    def probing(self) -> Iterator[None]:
        """Send probes while the block runs; at its end, wait for those under way.

        Raises SystemExit when one was never served.
        """
        watchers = [
            threading.Thread(target=watch) for watch in (self._watch_topics, self._watch_api)
        ]
        sender = threading.Thread(target=self._send)
        for thread in (*watchers, sender):
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            sender.join()
            self._wait_for_pending()
            self._end.set()
            for watcher in watchers:
                watcher.join()
            self._consumer.close()
        probes = self.probes.values()
        # If lost probes were left out, the worst cases would disappear from the percentiles.
        lost = [probe.store for probe in probes if len(probe.seen) < len(STEPS)]
        if lost:
            raise SystemExit(
                f"{len(lost)} of {len(self.probes)} probes were never served, e.g. store {lost[0]};"
                " no number"
            )

    def _wait_for_pending(self) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while (
            any(len(probe.seen) < len(STEPS) for probe in self.probes.values())
            and time.monotonic() < deadline
        ):
            time.sleep(0.2)

    def _send(self) -> None:
        with connect_gateway(self._settings.gateway, retry_seconds=0) as gateway:
            while not self._stop.wait(1 / PROBES_A_SECOND):
                store, now = f"probe-{next(_receipt_numbers)}", datetime.now(UTC)
                body = message(store, now)
                # Registered before it is sent: its record may be seen before the acknowledgement.
                self.probes[store] = probe = Probe(store, now, time.monotonic())
                gateway.post_accepted(RECEIPTS_PATH, [body])
                probe.acknowledged = time.monotonic()

    def _watch_topics(self) -> None:
        while not self._end.is_set():
            found = self._consumer.poll(0.05)
            if found is None or found.error() is not None:
                continue
            store = json.loads(found.value() or b"{}").get("store_id", "")
            if probe := self.probes.get(store):
                probe.seen.setdefault(TOPICS[str(found.topic())], time.monotonic())

    def _watch_api(self) -> None:
        with ApiClient(self._settings.api, "bench", timeout=30) as api:
            while not self._end.is_set():
                # A probe is queried once it is announced: earlier queries would only be load.
                waiting = [
                    probe
                    for probe in [*self.probes.values()]
                    if "announced" in probe.seen and "served" not in probe.seen
                ]
                for probe in waiting:
                    if _is_served(api, probe):
                        probe.seen["served"] = time.monotonic()
                time.sleep(0.02)


@contextmanager
def load(settings: Settings, rate: int) -> Iterator[None]:
    """Send `rate` receipts per second of other stores while the block runs."""
    stop = threading.Event()

    def sell() -> None:
        """Send the receipts of a tenth of a second at a time."""
        with connect_gateway(settings.gateway, retry_seconds=0) as gateway:
            due = time.monotonic()
            while not stop.wait(max(0.0, due - time.monotonic())):
                # By the clock, not by a pause after each post: a slow gateway must not lower the
                # rate at which it is measured.
                due += 1 / POSTS_A_SECOND
                now = datetime.now(UTC)
                messages = [
                    message(f"load-{next(_receipt_numbers) % LOAD_STORES}", now)
                    for _ in range(rate // POSTS_A_SECOND)
                ]
                gateway.post_accepted(RECEIPTS_PATH, messages)

    seller = threading.Thread(target=sell, daemon=True)
    if rate:
        seller.start()
    try:
        yield
    finally:
        stop.set()
        if rate:
            seller.join()


def _is_served(api: ApiClient, probe: Probe) -> bool:
    start = window_start(probe.at)
    span = {"from": format_utc(start), "to": format_utc(start + WINDOW)}
    try:
        answer = api.get("/v1/metrics/transactions", {"store": probe.store, **span})
    except ApiError:
        return False
    return bool(answer["rows"][0]["value"])


def message(store: str, now: datetime) -> bytes:
    """A receipt of now, as a till sends it."""
    till = {
        "vendor_fiscal_module": "1",
        "transaction_id": next(_receipt_numbers),
        "transactions": _LINES,
    }
    return json.dumps({"happened_at": format_utc(now), "operation_id": store, **till}).encode()


@contextmanager
def start_stack(contender: Contender) -> Iterator[Settings]:
    """Start the contender's whole local stack in an empty home."""
    with own_environment() as environment:
        tally = str(contender.folder / ".venv" / "bin" / "tally")
        try:
            subprocess.run(
                [tally, "up", *SERVICES],
                env=environment,
                cwd=contender.folder,
                check=True,
                stdout=subprocess.DEVNULL,
            )
            yield Settings.load(environment)
        finally:
            subprocess.run(
                [tally, "down"],
                env=environment,
                cwd=contender.folder,
                check=False,
                stdout=subprocess.DEVNULL,
            )


def measure_probes(settings: Settings, rate: int, seconds: float) -> list[Probe]:
    """The probes of this many seconds under this load (receipts per second)."""
    prober = Prober(settings)
    with load(settings, rate), prober.probing():
        time.sleep(seconds)
    return list(prober.probes.values())


def show(title: str, probes: Sequence[Probe]) -> dict[str, float]:
    """Print a table of the seconds from the acknowledgement to each step.

    Returns p50 and p99 of the last step, in seconds.
    """
    table = Table("step", "p50 s", "p90 s", "p99 s", title=f"{title}: {len(probes)} probes")
    for step in STEPS:
        found = sorted(probe.seconds(step) for probe in probes)
        cut = quantiles(found, n=100)
        table.add_row(
            f"acknowledged to {step}",
            *(f"{value:.2f}" for value in (median(found), cut[89], cut[98])),
        )
    Console().print(table)
    return {"p50": median(found), "p99": cut[98]}


def main() -> int:
    """Return 0 when every probe was served."""
    parser = arguments(__doc__, runs=1)
    parser.add_argument(
        "--rates", type=int, nargs="*", default=RATES, help="receipts a second beside the probes"
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="of probing at each rate")
    options = parser.parse_args()
    contenders = [
        Contender("now", "", REPOSITORY),
        *(
            Contender(
                path.name,
                "",
                Path(path).resolve(),
            )
            for path in options.against
        ),
    ]
    for number in range(options.runs):
        for contender in contenders:
            with start_stack(contender) as settings:
                say(f"run {number + 1}, {contender.name}: warming up")
                # Warmed up under load: an idle JVM compiles none of the code that is measured.
                measure_probes(settings, 300, WARM_SECONDS)
                for rate in options.rates:
                    show(
                        f"run {number + 1}, {contender.name}, {rate:,} receipts a second",
                        measure_probes(settings, rate, options.seconds),
                    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
