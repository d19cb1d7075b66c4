"""The raw receipts both ways: `python -m bench.receipts` measures the views beside them.

They run in one application and in two. Of both: how old what a reader sees is, processor seconds of
the speed layer for a million receipts, and its memory.
"""

import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from bench.freshness import WARM_SECONDS, measure_probes, show
from bench.lib.compared import say
from bench.lib.contenders import Contender
from bench.lib.harness import arguments, own_environment, running
from bench.lib.processes import job_cpu, job_memory
from bench.lib.shown import median_and_range
from runtime.process.files import REPOSITORY
from tally.config.settings import Settings

RATE = 500
# Both ways keep up with this trigger; one driver needs it so that the receipts do not occupy both
# cores for seconds.
TRIGGER_SETTINGS = {"TALLY_RECEIPTS_TRIGGER_SECONDS": "2"}
WAYS: dict[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "no receipts": (("speed_layer.job",), {}),
    "own application, low priority": (("speed_layer.job", "speed_layer.receipts_job"), {}),
    "one application, capped": (("bench.measurements.one_driver",), TRIGGER_SETTINGS),
}
# Columns of the table, with their number of decimals.
COLUMNS = {"p50": 2, "p99": 2, "cpu": 0, "mib": 0}
MeasuredNumbers = dict[str, float]


def measure_way(name: str, seconds: float) -> MeasuredNumbers:
    """Measure one way on a separate stack.

    Returns p50 and p99 in seconds, and for the speed layer the processor seconds per million
    receipts and the memory in MiB.
    """
    modules, variables = WAYS[name]
    with own_environment() as inherited, ExitStack() as exits:
        environment = {**inherited, **variables}
        tally = str(REPOSITORY / ".venv" / "bin" / "tally")
        # Registered before `up`, so that a partial start is stopped too.
        exits.callback(
            subprocess.run, [tally, "down"], env=environment, check=False, stdout=subprocess.DEVNULL
        )
        subprocess.run(
            [tally, "up", "normaliser", "gateway", "api"],
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        settings = Settings.load(environment)
        jobs = [exits.enter_context(_start_job(module, environment)) for module in modules]
        measure_probes(settings, RATE, WARM_SECONDS)
        before, began = _cpu_seconds(jobs), time.monotonic()
        found = show(f"{name}, {RATE} receipts a second", measure_probes(settings, RATE, seconds))
        # Receipts of the steady load; the probes beside it are one in a hundred.
        sold = RATE * (time.monotonic() - began)
        memory = sum(sum(job_memory(job).values()) for job in jobs)
        return {**found, "cpu": (_cpu_seconds(jobs) - before) / sold * 1e6, "mib": memory}


def _start_job(
    module: str, environment: Mapping[str, str]
) -> AbstractContextManager[psutil.Process]:
    folder = Path(environment["TALLY_HOME"]) / module
    folder.mkdir(parents=True)
    return running(
        Contender(module, module),
        {**environment, "TALLY_READY_FILE": str(folder / "ready")},
        folder,
    )


def _cpu_seconds(jobs: list[psutil.Process]) -> float:
    return sum(sum(job_cpu(job).values()) for job in jobs)


def main() -> int:
    """Return 0 when every probe was served."""
    parser = arguments(__doc__, runs=3)
    parser.add_argument("--seconds", type=float, default=30.0, help="of probing, each run")
    options = parser.parse_args()
    runs: dict[str, list[MeasuredNumbers]] = {name: [] for name in WAYS}
    for number in range(options.runs):
        for name in WAYS:
            say(f"run {number + 1}: {name}")
            runs[name].append(measure_way(name, options.seconds))
    table = Table(
        "raw receipts",
        "p50 s",
        "p99 s",
        "CPU s a million",
        "MiB",
        title=f"medians of {options.runs} runs, {RATE} a second",
    )
    for name, found in runs.items():
        columns = (
            median_and_range(
                [numbers[key] for numbers in found],
                digits,
            )
            for key, digits in COLUMNS.items()
        )
        table.add_row(name, *(f"{middle} ({spread})" for middle, spread in columns))
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
