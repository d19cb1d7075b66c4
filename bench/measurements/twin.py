"""How fresh each family is under twin stores in real time: `python -m bench.measurements.twin`.

The whole local stack takes what fifty twin stores send for twenty minutes: receipts, door counts
and sightings. Of each record: from its arrival in Kafka until the micro-batch that counted it had
ended, whose rows a reader sees then. And what each service used of processor and memory meanwhile.
"""

import argparse
import json
import subprocess
import sys
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median, quantiles

import psutil
from confluent_kafka import Message
from rich.console import Console
from rich.table import Table

from bench.lib.compared import say
from bench.lib.harness import own_environment
from bench.lib.processes import job_cpu, job_memory, measure_live_heap
from runtime.kafka.offsets import TopicOffsets, parse_offsets
from runtime.kafka.reader import read_to_end
from runtime.registry.store_fields import midday_zone
from schemas import loader
from tally.config.settings import Settings

SERVICES = ("normaliser", "gateway", "speed", "receipts", "master", "api")
# The warm-up comes first, because JVMs compile the measured code then.
WARM_MINUTES, SAMPLE_SECONDS, SETTLE_SECONDS = 2.0, 10.0, 15.0


@dataclass
class Usage:
    """The usage of one service.

    `memory` is MiB of its `jvm` and its `python` at each sample, `cpu` is processor seconds at each
    sample, and `live` is MiB of the JVM's live heap after each quarter of the time.
    """

    memory: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    cpu: list[float] = field(default_factory=list)
    live: list[float] = field(default_factory=list)

    def memory_summary(self, part: str) -> tuple[str, str]:
        """The median of a part's memory in MiB, and its growth in percent.

        The growth is from the median of the second quarter of the samples to that of the last.
        Both are empty for a part that the service does not have.
        """
        samples = self.memory[part]
        # The first quarter is left out, because JVMs still compile then.
        quarter = max(1, len(samples) // 4)
        before, after = samples[quarter : 2 * quarter] or samples, samples[-quarter:]
        if not any(before):
            return "", ""
        growth = 100 * (median(after) / median(before) - 1)
        return f"{median(samples):,.0f}", f"{growth:+.1f}"


def simulate(
    environment: Mapping[str, str], options: argparse.Namespace
) -> "subprocess.Popen[str]":
    """Start the process of the twin stores, which sends."""
    arguments = {
        "--stores": options.stores,
        "--passers": options.passers,
        "--live-minutes": options.minutes,
        "--tz": midday_zone(),
    }
    words = [str(word) for pair in arguments.items() for word in pair]
    command = [sys.executable, "-m", "ops.cli", "simulate", *words, "--json"]
    return subprocess.Popen(
        command, env={**environment}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def sample_usage(
    environment: Mapping[str, str], twin: "subprocess.Popen[str]", minutes: float
) -> dict[str, Usage]:
    """The usage of each service while the twin stores send for some minutes."""
    command = [sys.executable, "-m", "ops.cli", "status", "--json"]
    status = subprocess.run(
        command, env={**environment}, stdout=subprocess.PIPE, text=True, check=False
    )
    services = json.loads(status.stdout)["services"]
    pids = {name: service.get("pid") for name, service in services.items()}
    # A service that does not run has no pid.
    jobs = {name: psutil.Process(pid) for name, pid in pids.items() if pid}
    usage: dict[str, Usage] = defaultdict(Usage)
    began = time.monotonic()
    quarters = [began + 60 * minutes * share for share in (0.25, 0.5, 0.75)]
    while twin.poll() is None:
        if quarters and time.monotonic() >= quarters[0]:
            quarters.pop(0)
            sample_heaps(jobs, usage)
        for name, job in jobs.items():
            for part, mib in job_memory(job).items():
                usage[name].memory[part].append(mib)
            usage[name].cpu.append(sum(job_cpu(job).values()))
        time.sleep(SAMPLE_SECONDS)
    sample_heaps(jobs, usage)
    return usage


def sample_heaps(
    jobs: Mapping[str, psutil.Process],
    usage: Mapping[str, Usage],
) -> None:
    """Add a sample of each JVM's live heap, in MiB."""
    for name, job in jobs.items():
        if (live := measure_live_heap(job)) is not None:
            usage[name].live.append(live)


def micro_batches(home: Path) -> Iterator[tuple[float, TopicOffsets]]:
    """Yield the end of each micro-batch of the views, and its end offsets.

    The end is in seconds since 1970, the offsets are by topic and partition.
    """
    for line in (home / "logs" / "speed-progress-views.jsonl").read_text("utf-8").splitlines():
        report = json.loads(line)
        began = datetime.fromisoformat(report["timestamp"]).timestamp()
        ended = began + report["duration_ms"]["triggerExecution"] / 1000
        yield ended, parse_offsets(report["until"])


def message_position(message: Message) -> tuple[str, int, int]:
    """The topic, partition and offset of a message."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None and partition is not None and offset is not None
    return topic, partition, offset


def freshness(settings: Settings, since: float) -> dict[str, list[float]]:
    """The seconds until each record was served, by family.

    It covers records that arrived after `since` (seconds since 1970). Raises SystemExit when no
    micro-batch has read a record.
    """
    ends: list[float] = []
    reached: dict[tuple[str, int], list[int]] = defaultdict(list)
    for end, until in micro_batches(settings.home):
        ends.append(end)
        for topic, partitions in until.items():
            for number, so_far in partitions.items():
                reached[topic, number].append(so_far)
    found: dict[str, list[float]] = defaultdict(list)
    for message in read_to_end(settings, [*loader.sources()]):
        record = json.loads(message.value() or b"{}")
        arrived = datetime.fromisoformat(record["received_at"]).timestamp()
        if arrived < since:
            continue
        topic, partition, offset = message_position(message)
        first = bisect_right(reached[topic, partition], offset)
        # If the record were left out, the worst case would disappear.
        if first == len(ends):
            raise SystemExit(f"{topic}-{partition} at {offset} was never counted; no number")
        found[topic].append(ends[first] - arrived)
    return found


def show_freshness(found: Mapping[str, list[float]]) -> None:
    """Print a table of seconds by family."""
    table = Table("family", "records", "p50 s", "p90 s", "p99 s", "worst s", title="freshness")
    for family, values in sorted(found.items()):
        cut = quantiles(values, n=100, method="inclusive")
        numbers = (median(values), cut[89], cut[98], max(values))
        table.add_row(family, f"{len(values):,}", *(f"{number:.2f}" for number in numbers))
    Console(width=100).print(table)


def show_usage(usage: Mapping[str, Usage], seconds: float) -> None:
    """Print a table of each service's usage in this many seconds."""
    # All services are shown, to tell steady memory from growth. The memory of a JVM grows up to its
    # limit before it collects, so only its live heap shows a leak.
    heads = ("service", "cores", "JVM MiB", "growth %", "Python MiB", "growth %", "live heap MiB")
    table = Table(*heads, title="used")
    for name, used in usage.items():
        cores = (used.cpu[-1] - used.cpu[0]) / seconds
        heap = " → ".join(f"{live:.0f}" for live in used.live)
        memory = (*used.memory_summary("jvm"), *used.memory_summary("python"))
        table.add_row(name, f"{cores:.3f}", *memory, heap)
    Console(width=100).print(table)


def main() -> int:
    """Return 0 when every record was counted."""
    parser = argparse.ArgumentParser(prog="twin", description=__doc__)
    parser.add_argument("--stores", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--passers", type=int, default=2_000, help="of each store and day")
    options = parser.parse_args()
    with own_environment() as environment:
        tally = [sys.executable, "-m", "ops.cli"]
        try:
            subprocess.run(
                [*tally, "up", *SERVICES], env=environment, check=True, stdout=subprocess.DEVNULL
            )
            settings = Settings.load(environment)
            say(f"{options.stores} twin stores for {options.minutes:g} minutes")
            began = time.time()
            twin = simulate(environment, options)
            usage = sample_usage(environment, twin, options.minutes)
            seconds = time.time() - began
            assert twin.stdout is not None
            say(f"sent: {json.loads(twin.stdout.read())}")
            # Time for the last records to be counted.
            time.sleep(SETTLE_SECONDS)
            show_freshness(freshness(settings, began + 60 * WARM_MINUTES))
            show_usage(usage, seconds)
        finally:
            subprocess.run(
                [*tally, "down"], env=environment, check=False, stdout=subprocess.DEVNULL
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
