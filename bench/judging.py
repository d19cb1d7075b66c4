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

from alerting.evaluate.step import ALERTS, TICKS, UPDATES, Evaluator
from bench.lib import judging_against
from bench.lib.compared import say
from bench.lib.judged_world import (
    EVALUATED_FAMILIES,
    NOW,
    GeneratedViews,
    check_raises,
    make_rules,
    publish_generation,
    store_names,
)
from runtime.processor.step import Input, Output
from tally.alerts.message import Alert, decode_alert
from tally.alerts.tick import SpeedEpoch, Tick
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tally.time.instants import format_utc, to_millis
from tally.time.windows import WINDOW
from tests.support.evaluation.evaluating import ListedRules
from tests.support.serving.serving_world import PARTITIONS

QUARTERS, HINTS, MEBIBYTE = 2, 20, 1 << 10


@dataclass
class EvaluationCost:
    """The costs of evaluating some rules at some stores.

    `first` to `day` are processor seconds, `longest` is seconds of the longest transaction, `mib`
    is MiB, and `told` is the number of messages.
    """

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
        """The number of pairs of a rule and a store."""
        return self.rules * self.stores


@dataclass
class EvaluationRun:
    """An evaluator, and the alerts that it has sent."""

    evaluator: Evaluator
    views: GeneratedViews
    alerts: list[Alert] = field(default_factory=list)
    longest: float = 0.0
    ticks: int = 0

    def tick(self, quarters: int, flips: int = 0) -> float:
        """Processor seconds to evaluate all partitions, `quarters` quarter hours after NOW."""
        self.ticks += 1
        at = to_millis(NOW + quarters * WINDOW) + 61_000 + self.ticks
        tick = Tick(
            n=self.ticks,
            at=at,
            through={family.name: at for family in EVALUATED_FAMILIES},
            epoch={family.name: SpeedEpoch(family.epoch) for family in EVALUATED_FAMILIES},
            flips={family.name: flips for family in EVALUATED_FAMILIES},
            rules_until=1,
        )
        for number in range(PARTITIONS):
            self.evaluator.process(Input(TICKS, number, 0, 0, None, tick.value))
        return self._evaluate(PARTITIONS)

    def hint(self, store_id: str, quarters: int) -> float:
        """Processor seconds to evaluate one hint, `quarters` quarter hours after NOW."""
        update = {
            "family": EVALUATED_FAMILIES[0].name,
            "store_id": store_id,
            "window_start": format_utc(NOW + (quarters - 1) * WINDOW),
        }
        number = partition_number(store_id, PARTITIONS)
        value = msgspec.json.encode(update)
        self.evaluator.process(Input(UPDATES, number, 0, 0, None, value))
        # A hint is evaluated with the known tick, and no record marks its end.
        return self._evaluate(0)

    def _evaluate(self, partitions: int) -> float:
        began, done = self._processor_seconds(), -1
        while done < partitions:
            since = time.monotonic()
            outputs = self.evaluator.before_commit()
            self.longest = max(self.longest, time.monotonic() - since)
            # The last stored record of a partition is the tick with which it was evaluated.
            done = max(done, 0) + sum(output.key == b"c" for output in outputs)
            self._collect_alerts(outputs)
        return self._processor_seconds() - began

    def _processor_seconds(self) -> float:
        return time.process_time() - self.views.seconds

    def _collect_alerts(self, outputs: Sequence[Output]) -> None:
        self.alerts += [
            decode_alert(output.value or b"") for output in outputs if output.topic == ALERTS
        ]


def measure_cost(rules: int, stores: int) -> EvaluationCost:
    """The costs, measured in this process. Raises SystemExit when the raised alerts are wrong."""
    versions = make_rules(rules)
    names = store_names(stores)
    views, settings = GeneratedViews(names), Settings(default_timezone="Europe/Rome")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cost = EvaluationCost(rules, stores)
    with closing(Evaluator(settings, views, ListedRules(*versions))) as evaluator:
        run = EvaluationRun(evaluator, views)
        cost.first = run.tick(0)
        cost.quarter = mean(run.tick(quarter) for quarter in range(1, QUARTERS + 1))
        hinted = names[:: max(1, len(names) // HINTS)]
        cost.hint = mean(run.hint(name, QUARTERS) for name in hinted)
        check_raises(versions, names, run.alerts, QUARTERS)
        publish_generation(views)
        cost.day = run.tick(QUARTERS, flips=1)
    cost.longest, cost.told = run.longest, len(run.alerts)
    cost.mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / MEBIBYTE
    return cost


def measure_in_new_process(rules: int, stores: int) -> EvaluationCost:
    """The costs, measured in a new process, so that its memory has nothing of earlier runs."""
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawned) as pool:
        return pool.submit(measure_cost, rules, stores).result()


def show(costs: Sequence[EvaluationCost]) -> None:
    """Print one line for each number of rules and stores."""
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
    for cost in costs:
        table.add_row(
            f"{cost.rules:,}",
            f"{cost.stores:,}",
            f"{cost.quarter:.2f}",
            f"{cost.quarter / cost.pairs * 1e6:.0f}",
            f"{cost.hint * 1e3:.1f}",
            f"{cost.hint / cost.rules * 1e6:.0f}",
            f"{cost.day:.2f}",
            f"{cost.day / cost.pairs * 1e6:.0f}",
            f"{cost.longest:.1f}",
            f"{cost.mib:.0f}",
            f"{cost.told:,}",
        )
    Console(width=110).print(table)


def main() -> int:
    """Return 0 when every raised alert was as expected."""
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
            judging_against.measure_checkouts(options.against, rules, stores, options.runs)
        )
        return 0
    # A tenth of the rules and a tenth of the stores beside it show how the costs grow.
    sizes = ((rules // 10, stores), (rules, stores // 10), (rules, stores))
    costs = [measure_in_new_process(*size) for size in sizes if all(size)]
    if options.json:
        print(json.dumps({"costs": [asdict(cost) for cost in costs]}))
    else:
        show(costs)
    say("every raise of the stores that were compared is as it has to be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
