"""Coverage: the windows of a day that a generation may claim, and up to which arrival."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from cassandra.cluster import Session

from runtime.records.backfill import read_backfills
from runtime.records.gaps import AcceptedGap
from tally.families.family import Family
from tally.time.windows import (
    LAST_INSTANT,
    MAX_DAYS,
    WINDOW,
    day_start,
    next_window_start,
    window_start,
)


@dataclass(frozen=True)
class Claim:
    """Windows in [covered_from, covered_until) are covered: one without a row had no events.

    through: the instant up to which every record that had arrived is counted, by partition.
    """

    covered_from: datetime
    covered_until: datetime
    through: Mapping[int, datetime]


@dataclass(frozen=True)
class Coverage:
    """The coverage that a rebuild could claim now.

    tolerance: how far ahead of its arrival an event may lie; backfills: spans of days, inclusive.
    """

    through: Mapping[int, datetime]
    first_arrival: datetime | None
    tolerance: timedelta
    backfills: Sequence[tuple[date, date]] = ()
    gaps: Sequence[AcceptedGap] = ()

    def days(self) -> set[date]:
        """The days with a claim, with or without records.

        Each span contributes at most its newest MAX_DAYS days.
        """
        # The slowest partition decides: a day is claimed for the stores of all of them.
        until = window_start(min(self.through.values()))
        spans = [*self.backfills]
        if self.first_arrival is not None and self.first_arrival < until:
            # Up to the day of the last whole window: just after midnight the new day has none yet.
            spans.append((self.first_arrival.date(), (until - WINDOW).date()))
        return {
            date.fromordinal(number) for first, last in spans for number in _ordinals(first, last)
        }

    def claim(self, day: date) -> Claim:
        """The claim of a generation of the day."""
        through = {
            number: min([instant, *self._limits(day, number)])
            for number, instant in self.through.items()
        }
        covered_from = self._coverage_start(day)
        if covered_from is None:
            # An empty span covers nothing, and windows with a row are served as provisional.
            return Claim(day_start(day), day_start(day), through)
        return Claim(covered_from, window_start(min(through.values())), through)

    def limit(self, day: date) -> datetime:
        """The instant that no claim on the day may pass, however much still arrives."""
        if self._coverage_start(day) is None:
            return day_start(day)
        return min([LAST_INSTANT, *map(window_start, self._limits(day))])

    def _coverage_start(self, day: date) -> datetime | None:
        """The instant from which the day is covered; None for a day before the first arrival.

        Records of such a day are of a till whose clock was wrong, or old receipts; other events of
        that day are unknown.
        """
        if any(first <= day <= last for first, last in self.backfills):
            return day_start(day)
        # Coverage follows arrivals, not days with records: by those, one till dated nine months
        # back made 275 days of zeros for all stores (seen).
        if self.first_arrival is None or day < self.first_arrival.date():
            return None
        return max(day_start(day), next_window_start(self.first_arrival))

    def _limits(self, day: date, partition: int | None = None) -> list[datetime]:
        """First arrivals of the gaps that may have held records of the day.

        Only gaps of the given partition are considered; None considers all.
        """
        start = day_start(day)
        return [
            gap.first_arrival
            for gap in self.gaps
            # An event may lie ahead of its own arrival by the tolerance.
            if start < gap.last_arrival + self.tolerance
            and (partition is None or gap.is_raw or gap.partition == partition)
        ]


def read_backfill_spans(session: Session, family: Family) -> list[tuple[date, date]]:
    """The declared spans of the family: first and last UTC day of each, both inclusive."""
    return [(declared.first, declared.last) for declared in read_backfills(session, family.name)]


def _ordinals(first: date, last: date) -> range:
    return range(
        max(first.toordinal(), last.toordinal() - MAX_DAYS + 1),
        last.toordinal() + 1,
    )
