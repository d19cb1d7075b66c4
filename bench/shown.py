"""What was measured, as a table of medians."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class MeasuredRun:
    """One run: records a second, and what each process took.

    That is the seconds of processor time for a million records, and the peak of its memory in MiB.
    """

    per_second: float
    cpu_seconds: Mapping[str, float]
    peak_mib: Mapping[str, float]

    @property
    def cpu_total(self) -> float:
        """Seconds of processor time for a million records, of all processes."""
        return sum(self.cpu_seconds.values())


def show(title: str, runs: Mapping[str, Sequence[MeasuredRun]]) -> None:
    """The medians of the interleaved runs, lowest and highest beside them."""
    table = Table(
        "contender",
        "records/s",
        "lowest to highest",
        "CPU s a million: all (lowest to highest); jvm, python, cassandra, kafka",
        "peak MiB",
        title=title,
    )
    for name, some in runs.items():
        rates, least_to_most = interval([run.per_second for run in some], 0)
        total, totals = interval([run.cpu_total for run in some], 2)
        cpu = f"{total} ({totals}); " + ", ".join(
            f"{median(run.cpu_seconds.get(part, 0.0) for run in some):.1f}"
            for part in ("jvm", "python", "cassandra", "kafka")
        )
        peak = ", ".join(
            # The highest of all runs and no median: memory has to suffice for each.
            f"{part} {max(run.peak_mib.get(part, 0.0) for run in some):.0f}"
            for part in ("jvm", "python")
        )
        table.add_row(name, rates, least_to_most, cpu, peak)
    Console().print(table)


def interval(values: Sequence[float], digits: int) -> tuple[str, str]:
    """As texts the median, and the lowest to the highest, with so many decimals."""
    return (
        f"{median(values):,.{digits}f}",
        f"{min(values):,.{digits}f} to {max(values):,.{digits}f}",
    )
