"""How soon subscribers are told: `python -m bench.alert_latency` counts visitors until rules fire.

The load is steady, 200 intervals of people counters a second of fifty stores, through the gateway
of a whole local stack. Eager rules say from how many visitors of a quarter hour on a store is busy,
so that each store fires one after the other. Of each alert: when the gateway had acknowledged the
interval that called for it, and when its canonical record could be read, its window was announced,
the alert could be read in the topic, a subscriber of the stream had it, a webhook was called.

A rule is in force a whole quarter hour after it was written at the earliest: so long load without
visitors warms the stack up. Who starts just before a quarter hour begins waits least; or prepares a
stack with `--home FOLDER --prepare` and measures with `--home FOLDER` later, once: what it has
raised stays open.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from statistics import median, quantiles

from rich.console import Console
from rich.table import Table

from alerting.deliver.state.controls import AlertChannel, write_controls
from alerting.rules.rule import Rule, Threshold
from alerting.rules.topic import write_rules
from alerting.rules.versions import StoredRule
from bench.lib.busy_doors import THRESHOLDS, BusyDoors, rule_id
from bench.lib.compared import say
from bench.lib.harness import own_environment
from bench.lib.subscribers import CALLED, STEPS, Sightings, ThresholdCrossing, watching, webhook
from ingest.senders.gateway_client import connect_gateway
from ops.local.processes.addresses import separate_environment
from tally.config.settings import Settings
from tally.time.instants import from_millis
from tally.time.windows import WINDOW, window_start

SERVICES = ("normaliser", "gateway", "api", "speed", "evaluator", "dispatcher")
POSTS_A_SECOND, WARM_RATE = 10, 50
# An interval may not cross the end of its window.
WINDOW_MARGIN = timedelta(seconds=3)
# The first alerts are left out: the JVM still compiles the code that sends them.
FIRST_SECONDS, TIMEOUT_SECONDS, PROGRESS_SECONDS = 30.0, 60.0, 30.0
WARM_UP = timedelta(seconds=45)
CHANNEL, SECRET = "bench", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def make_busy_rule(threshold: int) -> StoredRule:
    """The rule that a store is busy from this many visitors in a quarter hour."""
    rule = Rule(
        rule_id=rule_id(threshold),
        metric="visitors_in",
        condition=Threshold(">=", Decimal(threshold)),
        clear=Threshold("<", Decimal(threshold)),
        evaluate="eager",
        channels=(CHANNEL,),
    )
    return StoredRule(rule=rule, version=1)


def post_until(
    settings: Settings, end: datetime, doors: BusyDoors, messages: Callable[[], list[bytes]]
) -> None:
    """Post the intervals of a tenth of a second at a time, until the instant.

    Raises BodyRefused, or GatewayUnavailable, when the gateway does not accept them at once.
    """
    with connect_gateway(settings.gateway, retry_seconds=0) as gateway:
        due = time.monotonic()
        while datetime.now(UTC) < end:
            # By the clock, not by a pause after each post: a slow gateway must not lower the rate
            # at which it is measured.
            due += 1 / POSTS_A_SECOND
            gateway.post_accepted("/v1/events/traffic", messages())
            doors.acknowledge()
            time.sleep(max(0.0, due - time.monotonic()))


def begin_after(start: datetime, seconds: float) -> datetime:
    """The first instant with that many seconds left in its window, after the rules apply."""
    earliest = max(start, datetime.now(UTC) + WARM_UP)
    end = window_start(earliest) + WINDOW
    return earliest if end - earliest > timedelta(seconds=seconds) + 5 * WINDOW_MARGIN else end


def warm_up(settings: Settings, doors: BusyDoors, until: datetime) -> None:
    """Send load without visitors until the instant, and print the remaining time now and then."""
    told = float("-inf")

    def messages() -> list[bytes]:
        nonlocal told
        if time.monotonic() - told > PROGRESS_SECONDS:
            left = (until - datetime.now(UTC)).total_seconds()
            say(f"warming up: it is measured from {until:%H:%M:%S} UTC on, in {left:.0f} s")
            told = time.monotonic()
        return doors.load(WARM_RATE // POSTS_A_SECOND, 0)

    while (now := datetime.now(UTC)) < until:
        end = window_start(now) + WINDOW
        post_until(settings, min(until, end - WINDOW_MARGIN), doors, messages)
        left = min(until, end) - datetime.now(UTC)
        time.sleep(max(0.0, left.total_seconds()))


def measure_crossings(
    settings: Settings, doors: BusyDoors, seen: Sightings, rate: int, seconds: float
) -> dict[ThresholdCrossing, float]:
    """The intervals that crossed a threshold, with their acknowledgement in monotonic seconds.

    Raises SystemExit when a step of one was never seen, or an alert came twice.
    """
    with watching(settings, seen):
        began, first = time.monotonic(), doors.head_start()

        def messages() -> list[bytes]:
            begun = [*first]
            first.clear()
            return begun + doors.load(rate // POSTS_A_SECOND, 1)

        post_until(settings, datetime.now(UTC) + timedelta(seconds=seconds), doors, messages)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while missing(doors.crossings, seen) and time.monotonic() < deadline:
            time.sleep(0.2)
    # If lost alerts were left out, the worst cases would disappear from the percentiles.
    if lost := missing(doors.crossings, seen):
        raise SystemExit(f"{len(lost)} of {len(doors.crossings)} never came, e.g. {lost[0]}")
    # A webhook may be called again; the others may not.
    for step, times in seen.times.items():
        again = [alert for alert, count in times.items() if count > 1]
        if again and step != CALLED:
            raise SystemExit(f"{step}: {len(again)} alerts came twice, e.g. {again[0]}")
    return {
        crossing: acknowledged
        for crossing, acknowledged in doors.crossings.items()
        if acknowledged - began > FIRST_SECONDS
    }


def missing(crossed: Mapping[ThresholdCrossing, float], seen: Sightings) -> list[str]:
    """The intervals that were not seen at every step, with the steps at which they were seen."""
    steps = ((crossing, seen.step_times(crossing)) for crossing in crossed)
    return [f"{crossing}: {[*found]}" for crossing, found in steps if len(found) < len(STEPS)]


def percentiles(
    crossed: Mapping[ThresholdCrossing, float], seen: Sightings
) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Yield p50, p90 and p99 of the seconds since the acknowledgement, by step."""
    for step in STEPS:
        waited = [seen.step_times(crossing)[step] - at for crossing, at in crossed.items()]
        cut = quantiles(waited, n=100, method="inclusive")
        yield step, {"p50": median(waited), "p90": cut[89], "p99": cut[98]}


def show(title: str, found: Mapping[str, Mapping[str, float]]) -> None:
    """Print a table of seconds by step."""
    table = Table("step", "p50 s", "p90 s", "p99 s", title=title)
    for step, values in found.items():
        table.add_row(f"acknowledged to {step}", *(f"{seconds:.2f}" for seconds in values.values()))
    Console(width=100).print(table)


def with_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a stack that may call loopback, and has a secret for signatures."""
    file = Path(environment["TALLY_HOME"]) / "bench-secrets.json"
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.write_text(json.dumps({CHANNEL: SECRET}), "utf-8")
    file.chmod(0o600)
    allowed = {"TALLY_WEBHOOK_NETWORKS": "127.0.0.0/8", "TALLY_WEBHOOK_SECRETS": str(file)}
    return {**environment, **allowed}


def channel_at(url: str) -> AlertChannel:
    """A channel that gets each alert in its own message, without a limit on their number."""
    return AlertChannel(
        channel_id=CHANNEL,
        url=url,
        secrets=(CHANNEL,),
        max_age=10**9,
        most_a_minute=10**6,
    )


def tally(verb: Sequence[str], environment: Mapping[str, str]) -> int:
    """The exit code of a command of the command line, which prints errors on stderr."""
    command = [sys.executable, "-m", "ops.cli", *verb]
    quiet = subprocess.DEVNULL
    return subprocess.run(command, env={**environment}, stdout=quiet, check=False).returncode


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The parsed command-line options."""
    parser = argparse.ArgumentParser(prog="alert_latency", description=__doc__)
    parser.add_argument("--rate", type=int, default=200, help="intervals a second")
    parser.add_argument("--seconds", type=float, default=300.0, help="of measuring, 840 at most")
    parser.add_argument("--home", type=Path, help="folder of a stack that stays; by default none")
    parser.add_argument("--prepare", action="store_true", help="start it, write the rules, end")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args(words)


@contextmanager
def stack(home: Path | None) -> Iterator[Settings]:
    """Start the services in a permanent home, or in a temporary home for this run.

    Raises SystemExit when they do not start.
    """
    with ExitStack() as ending:
        own = (
            separate_environment(home, os.environ)
            if home
            else ending.enter_context(own_environment())
        )
        environment = with_secrets(own)
        if home is None:
            ending.callback(tally, ["down"], environment)
        if tally(["up", *SERVICES], environment):
            raise SystemExit("the stack has not started")
        yield Settings.load(environment)


def main() -> int:
    """Return 0 when every alert arrived at every step, and only webhooks got repeats."""
    options = arguments()
    with stack(options.home) as settings:
        # For rules that exist already the first record applies.
        versions = write_rules(settings, [make_busy_rule(threshold) for threshold in THRESHOLDS])
        start = from_millis(max(version.effective_from for version in versions))
        if options.prepare:
            say(f"the rules are in force from {start:%H:%M} UTC on")
            return 0
        begin, doors = begin_after(start, options.seconds), BusyDoors()
        seen = Sightings(window_start(begin))
        with webhook(seen) as port:
            write_controls(settings, [channel_at(f"http://127.0.0.1:{port}/")])
            warm_up(settings, doors, begin)
            say(f"measuring for {options.seconds:g} s")
            crossed = measure_crossings(settings, doors, seen, options.rate, options.seconds)
    found = dict(percentiles(crossed, seen))
    result = {"rate": options.rate, "alerts": len(crossed), "seconds": found}
    if options.json:
        print(json.dumps(result))
    else:
        show(f"{len(crossed):,} alerts, {options.rate:,} intervals a second", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
