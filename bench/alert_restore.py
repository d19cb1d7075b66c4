"""Restoring an evaluator of alerts: `python -m bench.alert_restore` writes 10,000 rules and 100,000
alerts as they were told, each first as provisional and then as confirmed, and times who reads them.

It prints medians of seconds, lowest and highest beside them: rules and state read and understood in
this process, an evaluator's process from its start until it has its partitions and their state, and
that process's memory then. What lacks a rule or an alert has no number. Nothing is compacted yet:
200,000 records of state.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from confluent_kafka import TopicPartition

from bench.compared import say
from bench.harness import READY_SECONDS, Bench, own_stack
from bench.shown import interval
from runtime.connect import kafka_producer
from runtime.processor.state import kept_state
from runtime.producer import AwaitedProducer
from runtime.rules.topic import RuleReader, write_rules
from serving.alerts.evaluator.judged_rules import JudgedRules
from serving.alerts.evaluator.memory import PartitionMemory, recalled
from serving.alerts.evaluator.step import INPUTS, Evaluator
from tally.alerts.ids import Chain, alert_id
from tally.alerts.message import AlertState
from tally.alerts.rule import Rule
from tally.alerts.told import ToldAlert
from tally.alerts.versions import StoredRule
from tally.settings import Settings
from tally.windows import WINDOW_MILLIS

RULES, ALERTS, STORES = 10_000, 100_000, 500
SEND_SECONDS, LOOK_SECONDS, MEBIBYTE = 120.0, 0.02, 1 << 20
# Some quarter hour: what is remembered is of no store that sends, so nothing of it is judged.
BEGIN = 1_790_000_000_000 - 1_790_000_000_000 % WINDOW_MILLIS


def rule(number: int) -> StoredRule:
    """A rule of its own, which waits for silence."""
    found = Rule(rule_id=f"silent-{number}", kind="silence", family="sales", on_silence="raise")
    return StoredRule(rule=found, version=1)


def told(number: int, state: AlertState) -> ToldAlert:
    """An alert of some rule at some store; each number is another one."""
    chain = Chain(f"silent-{number % RULES}", f"s{number % STORES}", "none")
    window = BEGIN + number // STORES * WINDOW_MILLIS
    return ToldAlert(
        alert_id=alert_id(chain, 1, window),
        chain=chain,
        version=1,
        edge="raise",
        window=window,
        state=state,
        raised_at=window + WINDOW_MILLIS,
        start=window,
        ended=window + 4 * WINDOW_MILLIS,
    )


def write_state(settings: Settings) -> None:
    """Every alert told in its two states. Raises NotSent."""
    sender = AwaitedProducer(kafka_producer(settings), SEND_SECONDS)
    for partition in range(settings.partitions):
        memory = PartitionMemory(partition)
        states: tuple[AlertState, ...] = ("provisional", "confirmed")
        for state in states:
            for number in range(partition, ALERTS, settings.partitions):
                memory.tell(told(number, state))
            # In the form of the product, whatever that is by then.
            for one in memory.drained():
                sender.send(one.topic, one.value, one.key or b"", one.partition)
    sender.settle("the state of alerts", "look into the broker's log")


def seconds_of_rules(settings: Settings) -> float:
    """Until all rules are read and put in order. Raises SystemExit when there are others."""
    began = time.monotonic()
    found = JudgedRules(RuleReader(settings).read().chains)
    seconds = time.monotonic() - began
    refuse(len(found.rules), RULES, "rules")
    return seconds


def seconds_of_state(settings: Settings) -> float:
    """Until the state of all partitions is in memory. Raises SystemExit when it is another one."""
    inputs = [
        TopicPartition(topic, number) for topic in INPUTS for number in range(settings.partitions)
    ]
    began = time.monotonic()
    memories = recalled(kept_state(settings, Evaluator.state_topic, INPUTS, inputs))
    seconds = time.monotonic() - began
    refuse(sum(map(count_of, memories.values())), ALERTS, "confirmed alerts")
    return seconds


def count_of(memory: PartitionMemory) -> int:
    """How many alerts it knows as confirmed."""
    # By its own words, not by how it keeps them.
    chains = {told(number, "confirmed").chain for number in range(ALERTS)}
    known = (one for chain in chains for one in memory.told(chain).values())
    return sum(one.state == "confirmed" for one in known)


def refuse(found: int, expected: int, what: str) -> None:
    """Raises SystemExit unless there are as many as there have to be."""
    if found != expected:
        raise SystemExit(f"{found:,} {what} in place of {expected:,}")


def process_runs(bench: Bench, runs: int) -> Iterator[tuple[float, float]]:
    """Of each evaluator seconds until it is ready, and its memory then in MiB.

    Raises SystemExit when one does not get ready.
    """
    command = [sys.executable, "-m", "serving.alerts.evaluator"]
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
                    # It leaves its group: the next one would wait for a member that is gone.
                    started.terminate()


def wait_for(ready: Path, started: "subprocess.Popen[bytes]") -> None:
    """Return when the process is ready. Raises SystemExit when it is not in time."""
    until = time.monotonic() + READY_SECONDS
    while not ready.exists():
        if started.poll() is not None or time.monotonic() > until:
            raise SystemExit("the evaluator did not get ready")
        time.sleep(LOOK_SECONDS)


def show(name: str, values: Sequence[float], digits: int) -> None:
    """One line: the median, and the lowest to the highest."""
    print(f"{name:18}", *interval(values, digits))


def main() -> int:
    """Exit code 0 when every run has restored all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    with own_stack() as bench:
        settings = bench.settings
        say(f"{RULES:,} rules, {ALERTS:,} alerts are written")
        write_rules(settings, [rule(number) for number in range(RULES)])
        write_state(settings)
        # The first run too: somebody who restores has just begun.
        measured: dict[str, Callable[[Settings], float]] = {
            "rules read, s": seconds_of_rules,
            "state read, s": seconds_of_state,
        }
        for name, measure in measured.items():
            show(name, [measure(settings) for _ in range(runs)], 2)
        seconds, memory = zip(*process_runs(bench, runs), strict=True)
        show("process ready, s", seconds, 2)
        show("its memory, MiB", memory, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
