"""What judging costs in this checkout and in others, in the same run.

Each checkout measures itself: `python -m bench.judging --json` in its folder, by its own Python
where it has one. In turn, so that a quieter hour is everybody's, and each first as often.
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

from bench.compared import say
from runtime.repository import REPOSITORY

# Of what `--json` tells: processor seconds.
MEASURED = ("first", "quarter", "hint", "day")
CostsByName = Mapping[str, float]


class CheckoutCosts(NamedTuple):
    """What one checkout took in each run, processor seconds by what was measured."""

    name: str
    runs: list[CostsByName]

    def median(self, measured: str) -> float:
        """Of all runs."""
        return median(one[measured] for one in self.runs)


def measured_in_turn(
    against: Sequence[Path], rules: int, stores: int, runs: int
) -> list[CheckoutCosts]:
    """This checkout first, then the others. Raises SystemExit when one of them cannot measure."""
    folders = [REPOSITORY, *(one.resolve() for one in against)]
    found = [CheckoutCosts(folder.name, []) for folder in folders]
    for number in range(runs):
        each = [*zip(folders, found, strict=True)]
        for folder, costs in each if number % 2 == 0 else reversed(each):
            cost = _measured_in(folder, rules, stores)
            costs.runs.append(cost)
            say(f"run {number + 1}, {costs.name}: a quarter hour {cost['quarter']:.2f} s")
    return found


def show(costs: Sequence[CheckoutCosts]) -> None:
    """A line for each checkout: medians, and by how much this one takes more or less."""
    table = Table("checkout", *(f"{name}, s" for name in MEASURED), title="judging, medians")
    for one in costs:
        table.add_row(one.name, *(f"{one.median(name):.3f}" for name in MEASURED))
    first, *others = costs
    for one in others:
        ratios = (first.median(name) / one.median(name) for name in MEASURED)
        table.add_row(f"{first.name} / {one.name}", *(f"{ratio:.2f}" for ratio in ratios))
    Console(width=110).print(table)


def _measured_in(folder: Path, rules: int, stores: int) -> CostsByName:
    own = folder / ".venv" / "bin" / "python"
    python = str(own) if own.exists() else sys.executable
    asked = "--json", "--rules", str(rules), "--stores", str(stores)
    done = subprocess.run(
        [python, "-m", "bench.judging", *asked],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{folder}: bench.judging ended with {done.returncode}; no number")
    # It measures a tenth of rules and of stores too; the whole is the last.
    *_, whole = json.loads(done.stdout)["costs"]
    return dict(_named(whole))


def _named(whole: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    for name in MEASURED:
        yield name, float(whole[name])
