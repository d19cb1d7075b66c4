"""The plan of a rebuild: its pin, and the days that it publishes, each with the reason.

It follows from what the ingest has noted of the master, from the pointers and from Kafka. No record
of the master is read, and no JVM is needed.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import NamedTuple

import pyarrow as pa
from cassandra.cluster import Session
from deltalake import DeltaTable

from batch_layer.views.compute.pin import Pin, pin_master
from batch_layer.views.compute.scope import (
    Coverage,
    DayReason,
    RebuildRequest,
    RebuildScope,
    all_days,
    days_between,
    dirty_days,
    newest,
)
from runtime.kafka.broker_clock import read_broker_time
from runtime.records.gaps import read_backfills, read_gaps
from runtime.spark.arrow import to_rows
from tally.config.settings import Settings
from tally.families.family import Family
from tally.families.generation import Generation
from tally.time.day_clock import days_around
from tally.time.instants import assume_utc

_SELECT_DAYS = "SELECT day, partition, until FROM master_progress WHERE family = %s"
_SELECT_ARRIVAL = "SELECT first_at FROM master_arrival WHERE family = %s"


class MasterDays(NamedTuple):
    """What the ingest has noted of a family: its days, and its first arrival (UTC).

    until: by day and partition, the offset behind the last record that the fates of the day's
    records depend on.
    """

    until: dict[date, dict[int, int]]
    first_arrival: datetime | None


@dataclass(frozen=True)
class RebuildPlan:
    """The days of a family to rebuild, each with the reason, and what they may claim.

    current: the generation that serves each day now.
    """

    family: Family
    pin: Pin
    current: Mapping[date, Generation]
    coverage: Coverage
    reasons: Mapping[date, DayReason]

    @property
    def days(self) -> list[date]:
        """All days to publish, ascending."""
        return sorted(self.reasons)

    @property
    def kept(self) -> dict[date, int]:
        """The generation of the days whose rows stay: only more of them is covered."""
        # Rows of presences depend on the instant up to which they are computed.
        if self.family.reading is not None:
            return {}
        return {
            day: self.current[day].generation
            for day, reason in self.reasons.items()
            if reason == "coverage"
        }


class PlannedDay(NamedTuple):
    """A line of a plan: the records (rows) that the day's files hold, of all partitions."""

    family: str
    day: date
    partitions: Sequence[int]
    records: int
    reason: DayReason


def plan_rebuild(
    session: Session,
    settings: Settings,
    request: RebuildRequest,
    family: Family,
    current: Mapping[date, Generation],
) -> RebuildPlan:
    """Pin the master and choose the days of the request.

    current: read after the token was taken. Raises as pin_master().
    """
    pin = pin_master(settings, family, read_broker_time(settings)).with_earlier(current.values())
    noted = read_master_days(session, family.name, pin)
    coverage = Coverage(
        through=pin.through,
        first_arrival=noted.first_arrival,
        tolerance=timedelta(seconds=settings.future_tolerance_seconds),
        backfills=[(given.first, given.last) for given in read_backfills(session, family.name)],
        gaps=read_gaps(session, family.source_topics),
    )
    until = noted.until
    if request.mode == "full":
        # Its days are those of the files too: it proves what the ingest has noted.
        until = {day: {} for day in _file_records(settings, family, pin.version)} | until
    scope = RebuildScope(family.epochs, coverage, until)
    chosen = _choose_days(request, settings, family, scope, current)
    return RebuildPlan(family, pin, current, coverage, chosen)


def read_master_days(session: Session, family: str, pin: Pin) -> MasterDays:
    """What the ingest has noted; offsets beyond the pin are left to the next rebuild."""
    until: dict[date, dict[int, int]] = {}
    for row in session.execute(_SELECT_DAYS, [family]):
        end = min(row.until, pin.until.get(row.partition, 0))
        until.setdefault(row.day.date(), {})[row.partition] = end
    arrival = session.execute(_SELECT_ARRIVAL, [family]).one()
    return MasterDays(until, assume_utc(arrival.first_at) if arrival else None)


def _choose_days(
    request: RebuildRequest,
    settings: Settings,
    family: Family,
    scope: RebuildScope,
    current: Mapping[date, Generation],
) -> dict[date, DayReason]:
    known = {*scope.until, *current}
    dirty = dirty_days(scope, current)
    if request.mode == "days" and request.first and request.last:
        days = {*days_between(request.first, request.last)}
        # Whole key periods are rebuilt: otherwise a visit could be joined on one day and still be
        # counted on the next. Periods of a changed day among them follow too: after this run no
        # other would know of the change.
        more = period_days(settings, family, known, days)
        while not more <= days:
            days |= more
            more = period_days(settings, family, known, days & dirty.keys())
        chosen = sorted(days)
    elif request.mode == "full":
        chosen = newest(all_days(scope, current))
    else:
        chosen = newest({*dirty, *period_days(settings, family, known, dirty)})
    if request.mode != "dirty":
        return dict.fromkeys(chosen, "asked for")
    return {day: dirty.get(day, "key period") for day in chosen}


def period_days(
    settings: Settings, family: Family, known: Collection[date], days: Iterable[date]
) -> set[date]:
    """The known days around these that share a key period with them.

    Empty for a family whose windows depend on their own events alone.
    """
    if family.reading is None:
        return set()
    return {*known}.intersection(days_around([*days], settings.key_days))


def list_planned_days(settings: Settings, plan: RebuildPlan) -> list[PlannedDay]:
    """The lines of the plan, by the files of the pinned version."""
    records = _file_records(settings, plan.family, plan.pin.version)
    partitions = sorted(plan.pin.until)
    return [
        PlannedDay(plan.family.name, day, partitions, records[day], reason)
        for day, reason in sorted(plan.reasons.items())
    ]


def _file_records(settings: Settings, family: Family, version: int) -> Counter[date]:
    """How many records the files of a version hold of each day."""
    table = DeltaTable(str(settings.master_path), version=version)
    names = ["partition.source", "partition.event_date", "num_records"]
    files = pa.table(table.get_add_actions(flatten=True)).select(names)
    records: Counter[date] = Counter()
    for source, day, count in to_rows(files):
        if source == family.name:
            records[day] += count or 0
    return records
