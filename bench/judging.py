"""What judging costs: `python -m bench.judging` has an evaluator judge rules at stores, and prints
what it took when a quarter hour has closed, when one hint has come, and when a day was rebuilt.

Seconds are of the processor, of one evaluator with all partitions; `longest`: by the clock the
longest transaction. `MiB`: by how much its memory grew at most. Rows are made as they are read, so
that it is judging that is measured, and no node's answers; what making them takes is left out. Of
some stores every raise is compared with those of a loop over the numbers themselves: what differs
has no number.

`--against CHECKOUT` measures another checkout too, in turn with this one.
"""

import argparse
import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean

import msgspec
from rich.console import Console
from rich.table import Table

from bench import judging_against
from bench.compared import say
from bench.judged_world import (
    FAMILIES_JUDGED,
    NOW,
    MadeViews,
    compared_raises,
    rebuilt,
    rules_of,
    store_names,
)
from runtime.processor.record import Input, Output
from serving.alerts.evaluator.calendar import millis_of
from serving.alerts.evaluator.step import ALERTS, TICKS, UPDATES, Evaluator
from tally.alerts.message import Alert, alert_of
from tally.alerts.tick import SpeedEpoch, Tick
from tally.instants import instant_text
from tally.partitions import partition_of
from tally.settings import Settings
from tally.windows import WINDOW
from tests.support.evaluating import ListedRules
from tests.support.serving_world import PARTITIONS

QUARTERS, HINTS, MEBIBYTE = 2, 20, 1 << 10


@dataclass
class JudgedCost:
    """What one number of rules and stores took: processor seconds, seconds of the longest
    transaction, MiB, messages."""

    rules: int
    stores: int
    first: float = 0.0
    quarter: float = 0.0
    hint: float = 0.0
    day: float = 0.0
    longest: float = 0.0
    mib: float = 0.0
    told: int = 0

    @property
    def pairs(self) -> int:
        """How many rules there are at how many stores together."""
        return self.rules * self.stores


@dataclass
class JudgedRun:
    """An evaluator, and what it has told."""

    evaluator: Evaluator
    views: MadeViews
    alerts: list[Alert] = field(default_factory=list)
    longest: float = 0.0
    ticks: int = 0

    def tick(self, quarters: int, flips: int = 0) -> float:
        """Processor seconds until all partitions are judged, so many quarter hours after NOW."""
        self.ticks += 1
        at = millis_of(NOW + quarters * WINDOW) + 61_000 + self.ticks
        tick = Tick(
            n=self.ticks,
            at=at,
            through={one.name: at for one in FAMILIES_JUDGED},
            epoch={one.name: SpeedEpoch(one.epoch) for one in FAMILIES_JUDGED},
            flips={one.name: flips for one in FAMILIES_JUDGED},
            rules_until=1,
        )
        for number in range(PARTITIONS):
            self.evaluator.process(Input(TICKS, number, 0, 0, None, tick.value))
        return self._judged(PARTITIONS)

    def hint(self, store_id: str, quarters: int) -> float:
        """The same of a hint."""
        told = {
            "family": FAMILIES_JUDGED[0].name,
            "store_id": store_id,
            "window_start": instant_text(NOW + (quarters - 1) * WINDOW),
        }
        number = partition_of(store_id, PARTITIONS)
        value = msgspec.json.encode(told)
        self.evaluator.process(Input(UPDATES, number, 0, 0, None, value))
        # By the tick that is known: no record says that it was judged.
        return self._judged(0)

    def _judged(self, partitions: int) -> float:
        began, done = self._processor_seconds(), -1
        while done < partitions:
            since = time.monotonic()
            outputs = self.evaluator.tick()
            self.longest = max(self.longest, time.monotonic() - since)
            # The last that is stored of a partition is the tick by which it was judged.
            done = max(done, 0) + sum(one.key == b"c" for one in outputs)
            self._keep(outputs)
        return self._processor_seconds() - began

    def _processor_seconds(self) -> float:
        return time.process_time() - self.views.seconds

    def _keep(self, outputs: Sequence[Output]) -> None:
        self.alerts += [alert_of(one.value or b"") for one in outputs if one.topic == ALERTS]


def measured(rules: int, stores: int) -> JudgedCost:
    """What it takes, in this process. Raises SystemExit when a raise is another one."""
    made = rules_of(rules)
    names = store_names(stores)
    views, settings = MadeViews(names), Settings(default_timezone="Europe/Rome")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cost = JudgedCost(rules, stores)
    with closing(Evaluator(settings, views, ListedRules(*made))) as evaluator:
        run = JudgedRun(evaluator, views)
        cost.first = run.tick(0)
        cost.quarter = mean(run.tick(one) for one in range(1, QUARTERS + 1))
        some = names[:: max(1, len(names) // HINTS)]
        cost.hint = mean(run.hint(one, QUARTERS) for one in some)
        compared_raises(made, names, run.alerts, QUARTERS)
        rebuilt(views)
        cost.day = run.tick(QUARTERS, flips=1)
    cost.longest, cost.told = run.longest, len(run.alerts)
    cost.mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / MEBIBYTE
    return cost


def measured_apart(rules: int, stores: int) -> JudgedCost:
    """The same in a process of its own: what it holds is of nothing before."""
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawned) as pool:
        return pool.submit(measured, rules, stores).result()


def show(costs: Sequence[JudgedCost]) -> None:
    """A line for each."""
    table = Table(
        "rules",
        "stores",
        "a quarter hour, s",
        "µs a rule and store",
        "a hint, ms",
        "µs a rule",
        "a rebuilt day, s",
        "µs a rule and store",
        "longest, s",
        "MiB",
        "messages",
        title="judging",
    )
    for one in costs:
        table.add_row(
            f"{one.rules:,}",
            f"{one.stores:,}",
            f"{one.quarter:.2f}",
            f"{one.quarter / one.pairs * 1e6:.0f}",
            f"{one.hint * 1e3:.1f}",
            f"{one.hint / one.rules * 1e6:.0f}",
            f"{one.day:.2f}",
            f"{one.day / one.pairs * 1e6:.0f}",
            f"{one.longest:.1f}",
            f"{one.mib:.0f}",
            f"{one.told:,}",
        )
    Console(width=110).print(table)


def main() -> int:
    """Exit code 0 when every raise was the one that it has to be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rules", type=int, default=1_000)
    parser.add_argument("--stores", type=int, default=457)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument(
        "--against",
        type=Path,
        action="append",
        default=[],
        metavar="CHECKOUT",
        help="another checkout of Tally; of each the medians of --runs runs are shown",
    )
    parser.add_argument("--runs", type=int, default=3, help="runs of each, with --against")
    options = parser.parse_args()
    rules, stores = options.rules, options.stores
    if options.against:
        judging_against.show(
            judging_against.measured_in_turn(options.against, rules, stores, options.runs)
        )
        return 0
    # A tenth of the one and of the other beside it: whether it grows with what there is.
    sizes = ((rules // 10, stores), (rules, stores // 10), (rules, stores))
    costs = [measured_apart(*one) for one in sizes if all(one)]
    if options.json:
        print(json.dumps({"costs": [asdict(one) for one in costs]}))
    else:
        show(costs)
    say("every raise of the stores that were compared is as it has to be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
