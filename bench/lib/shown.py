"""Measured runs, and their table of medians."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class MeasuredRun:
    """One run: records per second, and the costs of each process.

    The costs are seconds of processor time per million records, and the peak memory in MiB.
    """

    per_second: float
    cpu_seconds: Mapping[str, float]
    peak_mib: Mapping[str, float]

    @property
    def cpu_total(self) -> float:
        """Seconds of processor time per million records, summed over all processes."""
        return sum(self.cpu_seconds.values())


def show(title: str, runs: Mapping[str, Sequence[MeasuredRun]]) -> None:
    """Print the medians of the interleaved runs, with the lowest and highest beside them."""
    table = Table(
        "contender",
        "records/s",
        "lowest to highest",
        "CPU s a million: all (lowest to highest); jvm, python, cassandra, kafka",
        "peak MiB",
        title=title,
    )
    for name, measured in runs.items():
        rates, least_to_most = median_and_range([run.per_second for run in measured], 0)
        total, totals = median_and_range([run.cpu_total for run in measured], 2)
        cpu = f"{total} ({totals}); " + ", ".join(
            f"{median(run.cpu_seconds.get(part, 0.0) for run in measured):.1f}"
            for part in ("jvm", "python", "cassandra", "kafka")
        )
        peak = ", ".join(
            # The highest of all runs, not the median: the memory must suffice for each run.
            f"{part} {max(run.peak_mib.get(part, 0.0) for run in measured):.0f}"
            for part in ("jvm", "python")
        )
        table.add_row(name, rates, least_to_most, cpu, peak)
    Console().print(table)


def median_and_range(values: Sequence[float], digits: int) -> tuple[str, str]:
    """The median, and the lowest to the highest value, as texts with this many decimals."""
    return (
        f"{median(values):,.{digits}f}",
        f"{min(values):,.{digits}f} to {max(values):,.{digits}f}",
    )
