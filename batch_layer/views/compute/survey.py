"""Survey: the counts that one pass over the fates of all records yields.

Further queries run only where the survey has found something.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from batch_layer.views.compute.classification import CONFLICT, FATES, UNREADABLE, WAITING
from tally.time.instants import from_millis

LedgerLine = Mapping[str, Any]


def summarize_fates(fates: DataFrame) -> DataFrame:
    """Summarise the fates, one row for each day and partition.

    In:  classify_records() of all days.
    Out: event_date, partition, until (first offset beyond), committed, counted, duplicate,
         conflict, unreadable, elsewhere, reversed, waiting bigint; first_arrival bigint
         (milliseconds since 1970; null where nothing can be read).
    """
    its_fate = F.col("fate")
    counts = [F.count_if(its_fate == fate).alias(fate) for fate in FATES]
    # Only readable records count: garbage is no arrival of the family's data.
    arrival = F.unix_millis(
        F.min(
            F.when(its_fate != UNREADABLE, F.col("committed_at")),
        )
    )
    # One pass over all records: each separate query, such as the number of conflicts, would be
    # another Spark job over them.
    return fates.groupBy("event_date", "partition").agg(
        (F.max("offset") + 1).alias("until"),
        F.count(F.lit(1)).alias("committed"),
        *counts,
        F.count_if("elsewhere").alias("elsewhere"),
        F.count_if(F.col("reversed_by").isNotNull()).alias("reversed"),
        F.count_if(WAITING).alias(WAITING),
        arrival.alias("first_arrival"),
    )


@dataclass(frozen=True)
class Survey:
    """The rows of summarize_fates()."""

    lines: Sequence[LedgerLine]

    @classmethod
    def from_fates(cls, fates: DataFrame) -> Self:
        """Collect the survey of the fates by one Spark action.

        In:  classify_records() of all days.
        Out: the rows of summarize_fates().
        """
        return cls([row.asDict() for row in summarize_fates(fates).collect()])

    @property
    def first_arrival(self) -> datetime | None:
        """The arrival of the first readable record; None if there is none."""
        found = [line["first_arrival"] for line in self.lines if line["first_arrival"] is not None]
        return from_millis(min(found)) if found else None

    def until(self) -> dict[date, dict[int, int]]:
        """The first offset that the master does not hold, by UTC day and partition."""
        found: dict[date, dict[int, int]] = {}
        for line in self.lines:
            found.setdefault(line["event_date"], {})[line["partition"]] = line["until"]
        return found

    def count(self, *names: str, days: Collection[date] | None = None) -> int:
        """The number of records of the days, or of all days, that have these fates."""
        chosen_days = None if days is None else set(days)
        return sum(
            line[name]
            for line in self.lines
            for name in names
            if chosen_days is None or line["event_date"] in chosen_days
        )

    def count_uncounted(self, days: Collection[date]) -> int:
        """Conflicts and unreadable records of the days."""
        return self.count(CONFLICT, UNREADABLE, days=days)

    def ledger(self) -> list[dict[str, int]]:
        """Counts of each partition, ascending: records committed, of each fate, and waiting."""
        totals: dict[int, Counter[str]] = {}
        for line in self.lines:
            totals.setdefault(line["partition"], Counter()).update(
                {name: line[name] for name in ("committed", *FATES, WAITING)}
            )
        return [{"partition": number, **totals[number]} for number in sorted(totals)]
