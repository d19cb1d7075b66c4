"""A summary of the speed layer's progress lines: micro-batches, receipts, seconds."""

import json
from dataclasses import dataclass
from pathlib import Path

WARM_FROM = 2  # the first two micro-batches compile code and open connections


@dataclass(frozen=True)
class SpeedSummary:
    """The number of micro-batches with records, and the work of those from the third on.

    The work is their number of records, and their seconds.
    """

    micro_batches: int
    warm_records: int
    warm_seconds: float
    fastest_per_second: float

    @property
    def warm_per_second(self) -> float:
        """Records per second of micro-batch time, without the time spent waiting for input."""
        return self.warm_records / self.warm_seconds if self.warm_seconds else 0.0


def speed_summary(log: Path) -> SpeedSummary:
    """The summary of one query's progress lines (JSON: batch_id, input_rows, duration_ms)."""
    text = log.read_text("utf-8") if log.exists() else ""
    lines = [json.loads(line) for line in text.splitlines()]
    filled = [
        (int(line["input_rows"]), line["duration_ms"]["triggerExecution"] / 1000)
        for line in lines
        if line["input_rows"]
    ]
    warm = filled[WARM_FROM:]
    rates = [rows / seconds for rows, seconds in warm if seconds]
    return SpeedSummary(
        len(filled),
        sum(rows for rows, _ in warm),
        sum(seconds for _, seconds in warm),
        max(rates, default=0.0),
    )
