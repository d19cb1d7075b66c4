"""Restoring an evaluator of alerts: `python -m bench.alert_restore` writes the state of a year of
1,000 rules at 457 stores, with 5.5 million settled episodes and 20,000 open ones, and times who
reads it; `--share 0.1` writes a tenth of the episodes.

It prints medians of seconds, lowest and highest beside them: rules and state read and understood in
this process, an evaluator's process from its start until it has its partitions and their state, and
that process's memory then. What lacks a rule or an episode has no number.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import psutil
from confluent_kafka import TopicPartition
from msgspec import structs

from alerting.alert.ids import Chain, alert_id
from alerting.alert.published import PublishedAlert, encode_alerts
from alerting.episodes.fold import Episode, FoldState
from alerting.evaluate.scope.rule_set import RuleSet
from alerting.evaluate.state.chain_memory import ChainMemory, pack_key
from alerting.evaluate.state.memory import STATE_TOPIC, PartitionMemory, restore_memories
from alerting.evaluate.step import INPUTS, Evaluator
from alerting.rules.rule import Rule
from alerting.rules.topic import RuleReader, write_rules
from alerting.rules.versions import StoredRule
from bench.lib.compared import say
from bench.lib.harness import READY_SECONDS, Bench, own_stack
from bench.lib.shown import median_and_range
from runtime.connect import kafka_producer
from runtime.kafka.producer import BlockingProducer
from runtime.processor.loop import read_state
from tally.alerts.message import AlertState
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tally.time.windows import WINDOW_MILLIS

RULES, STORES, SETTLED, OPEN = 1_000, 457, 5_500_000, 20_000
SEND_SECONDS, POLL_SECONDS, MEBIBYTE = 600.0, 0.02, 1 << 20
# Any quarter hour: the remembered stores send nothing, so no rule is evaluated for them.
BEGIN = 1_790_000_000_000 - 1_790_000_000_000 % WINDOW_MILLIS
# Values of records repeat after this many: they contain no chain, and are slow to make.
PATTERNS = 97


class Episodes(NamedTuple):
    """The number of settled episodes per rule and store, and of open episodes in total."""

    settled: int
    open: int

    @classmethod
    def from_share(cls, share: float) -> "Episodes":
        """A share of the episodes of one year."""
        per_chain = round(SETTLED * share / (RULES * STORES))
        return cls(max(1, per_chain), round(OPEN * share))

    @property
    def all_settled(self) -> int:
        """The number of settled episodes of all rules at all stores."""
        return self.settled * RULES * STORES


def rule(number: int) -> StoredRule:
    """A separate rule, which fires on silence."""
    found = Rule(rule_id=f"silent-{number}", kind="silence", family="sales", on_silence="raise")
    return StoredRule(rule=found, version=1)


def chains() -> Iterator[Chain]:
    """Yield the chain of every rule at every store."""
    for number in range(RULES * STORES):
        yield Chain(f"silent-{number % RULES}", f"s{number // RULES}", "none")


def make_raise(chain: Chain, number: int, state: AlertState) -> PublishedAlert:
    """The raise of a one-hour episode; each number is another episode."""
    window = BEGIN + number * 96 * WINDOW_MILLIS
    return PublishedAlert(
        alert_id=alert_id(chain, 1, window),
        chain=chain,
        version=1,
        edge="raise",
        window=window,
        state=state,
        raised_at=window + WINDOW_MILLIS + 62_345,
        start=window,
    )


def make_episode(chain: Chain, number: int) -> list[PublishedAlert]:
    """The raise and the clear of an episode, both confirmed."""
    first = make_raise(chain, number, "confirmed")
    window = first.window + 4 * WINDOW_MILLIS
    first = structs.replace(first, ended=window)
    end = structs.replace(
        first,
        alert_id=alert_id(chain, 1, window, "clear"),
        edge="clear",
        window=window,
        of=first.alert_id,
    )
    return [first, end]


def pack_episodes(pattern: int, episodes: int) -> bytes:
    """The value of a record with this many settled episodes."""
    chain = Chain("any", "any", "none")
    numbers = range(pattern, pattern + episodes * 7, 7)
    return encode_alerts([alert for number in numbers for alert in make_episode(chain, number)])


def write_state(settings: Settings, episodes: Episodes) -> None:
    """Write state records as evaluators do. Raises SendFailed when a record was not stored."""
    sender = BlockingProducer(kafka_producer(settings), SEND_SECONDS)
    memories = [PartitionMemory(number) for number in range(settings.partitions)]
    values = [pack_episodes(pattern, episodes.settled) for pattern in range(PATTERNS)]
    for number, chain in enumerate(chains()):
        partition = partition_number(chain.store_id, settings.partitions)
        key = pack_key(chain, 0).encode()
        sender.send(STATE_TOPIC, values[number % PATTERNS], key, partition)
        if number < episodes.open:
            open_chains = memories[partition].chains
            alert = make_raise(chain, 1_000, "confirmed")
            is_open = FoldState(open=Episode(alert.start, alert.window, 1))
            open_chains.store_alert(alert)
            open_chains.set_days(chain, {alert.window: is_open}, None)
    for memory in memories:
        for output in memory.drain():
            sender.send(output.topic, output.value, output.key or b"", output.partition)
    sender.flush("the state of alerts", "look into the broker's log")


def measure_rules(settings: Settings) -> float:
    """Seconds until all rules are read and sorted. Raises SystemExit when their number is wrong."""
    began = time.monotonic()
    found = RuleSet(RuleReader(settings).read().versions)
    seconds = time.monotonic() - began
    check_count(len(found.rules), RULES, "rules")
    return seconds


def measure_state(settings: Settings, episodes: Episodes) -> float:
    """Seconds until the state of all partitions is in memory. Raises SystemExit if it is wrong."""
    inputs = [
        TopicPartition(topic, number) for topic in INPUTS for number in range(settings.partitions)
    ]
    began = time.monotonic()
    memories = restore_memories(read_state(settings, Evaluator.state_topic, INPUTS, inputs))
    seconds = time.monotonic() - began
    known = {number: memory.chains for number, memory in memories.items()}
    open_counts = [len(chain_memory.open_raises()) for chain_memory in known.values()]
    check_count(sum(open_counts), episodes.open, "open episodes")
    check_count(_count_clears(known, settings), episodes.all_settled, "settled episodes")
    return seconds


def _count_clears(known: Mapping[int, ChainMemory], settings: Settings) -> int:
    """The number of clears in the memories, each decoded."""
    count = 0
    for chain in chains():
        memory = known[partition_number(chain.store_id, settings.partitions)]
        alerts = memory.alerts_since(chain, 0).values()
        count += len([alert for alert in alerts if alert.of])
    return count


def check_count(found: int, expected: int, what: str) -> None:
    """Raises SystemExit when the number found is not the expected number."""
    if found != expected:
        raise SystemExit(f"{found:,} {what} in place of {expected:,}")


def process_runs(bench: Bench, runs: int) -> Iterator[tuple[float, float]]:
    """Yield the seconds until each evaluator is ready, and its memory then in MiB.

    Raises SystemExit when an evaluator does not get ready.
    """
    command = [sys.executable, "-m", "alerting.evaluate"]
    for _ in range(runs):
        with TemporaryDirectory(prefix="bench-evaluator-") as folder:
            ready = Path(folder) / "ready"
            environment = {**bench.environment, "TALLY_READY_FILE": str(ready)}
            began = time.monotonic()
            with subprocess.Popen(command, env=environment) as started:
                try:
                    wait_for(ready, started)
                    seconds = time.monotonic() - began
                    yield seconds, psutil.Process(started.pid).memory_info().rss / MEBIBYTE
                finally:
                    # SIGTERM lets it leave its group: else the next would wait for a dead member.
                    started.terminate()


def wait_for(ready: Path, started: "subprocess.Popen[bytes]") -> None:
    """Return when the process is ready. Raises SystemExit when it is not ready in time."""
    until = time.monotonic() + READY_SECONDS
    while not ready.exists():
        if started.poll() is not None or time.monotonic() > until:
            raise SystemExit("the evaluator did not get ready")
        time.sleep(POLL_SECONDS)


def show(name: str, values: Sequence[float], digits: int) -> None:
    """Print one line with the median, and the lowest to the highest value."""
    print(f"{name:18}", *median_and_range(values, digits))


def main() -> int:
    """Return 0 when every run restored the complete state."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--share", type=float, default=1.0, help="of the episodes of a year")
    arguments = parser.parse_args()
    runs, episodes = arguments.runs, Episodes.from_share(arguments.share)
    with own_stack() as bench:
        settings = bench.settings
        say(f"{RULES:,} rules at {STORES} stores: {episodes.all_settled:,} settled episodes and")
        say(f"{episodes.open:,} open ones are written")
        write_rules(settings, [rule(number) for number in range(RULES)])
        write_state(settings, episodes)
        # The first run counts too: a process that restores has just started.
        measured: dict[str, Callable[[Settings], float]] = {
            "rules read, s": measure_rules,
            "state read, s": partial(measure_state, episodes=episodes),
        }
        for name, measure in measured.items():
            show(name, [measure(settings) for _ in range(runs)], 2)
        seconds, memory = zip(*process_runs(bench, runs), strict=True)
        show("process ready, s", seconds, 2)
        show("its memory, MiB", memory, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
