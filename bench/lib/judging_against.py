"""The costs of evaluating rules in this checkout and in others, measured in the same run.

Each checkout measures itself with `python -m bench.judging --json` in its folder, by its own Python
where it has one. They run in turn, so that load on the machine affects all alike, and each is first
equally often.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench.lib.compared import say
from runtime.process.files import REPOSITORY

# Fields of the output of `--json`, in processor seconds.
COST_NAMES = ("first", "quarter", "hint", "day")
CostsByName = Mapping[str, float]


class CheckoutCosts(NamedTuple):
    """The costs of one checkout in each run, in processor seconds by measurement."""

    name: str
    runs: list[CostsByName]

    def median(self, measured: str) -> float:
        """The median of all runs, in processor seconds."""
        return median(run[measured] for run in self.runs)


def measure_checkouts(
    against: Sequence[Path], rules: int, stores: int, runs: int
) -> list[CheckoutCosts]:
    """Measure this checkout and the others. Raises SystemExit when one of them cannot measure."""
    folders = [REPOSITORY, *(path.resolve() for path in against)]
    found = [CheckoutCosts(folder.name, []) for folder in folders]
    for number in range(runs):
        checkouts = [*zip(folders, found, strict=True)]
        for folder, costs in checkouts if number % 2 == 0 else reversed(checkouts):
            cost = _measure_in(folder, rules, stores)
            costs.runs.append(cost)
            say(f"run {number + 1}, {costs.name}: a quarter hour {cost['quarter']:.2f} s")
    return found


def show(costs: Sequence[CheckoutCosts]) -> None:
    """Print the medians of each checkout, and the ratio of this checkout to each other one."""
    table = Table("checkout", *(f"{name}, s" for name in COST_NAMES), title="judging, medians")
    for checkout in costs:
        table.add_row(checkout.name, *(f"{checkout.median(name):.3f}" for name in COST_NAMES))
    first, *others = costs
    for other in others:
        ratios = (first.median(name) / other.median(name) for name in COST_NAMES)
        table.add_row(f"{first.name} / {other.name}", *(f"{ratio:.2f}" for ratio in ratios))
    Console(width=110).print(table)


def _measure_in(folder: Path, rules: int, stores: int) -> CostsByName:
    own = folder / ".venv" / "bin" / "python"
    python = str(own) if own.exists() else sys.executable
    options = "--json", "--rules", str(rules), "--stores", str(stores)
    done = subprocess.run(
        [python, "-m", "bench.judging", *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{folder}: bench.judging ended with {done.returncode}; no number")
    # It also measures a tenth of the rules and of the stores; the full size is the last.
    *_, whole = json.loads(done.stdout)["costs"]
    return dict(_select_costs(whole))


def _select_costs(whole: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    for name in COST_NAMES:
        yield name, float(whole[name])
