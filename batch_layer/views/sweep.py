"""`python -m batch_layer.views.sweep`: removes versions of batch rows that no answer needs.

Of each row it keeps what serves now, what first served (an answer says `restated` by it), what
baselines were learned from, and what served at any instant of the last `TALLY_AS_OF_DAYS` days.
Versions of runs that were never published go too, where they lie between.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import structlog
from cassandra.cluster import Session

from batch_layer.views.publish.pointer import PointerTable
from batch_layer.views.publish.registers import read_store_spans
from batch_layer.views.publish.stored_rows import (
    BatchRowVersion,
    RowKeyColumns,
    StoreDay,
    StoredRows,
)
from batch_layer.views.sweep_tables import sweep_tables
from runtime.cassandra.writes import (
    binder,
    chunks,
    prepare_idempotent,
    read_many,
    write_groups,
    write_rows,
)
from runtime.connect import CQL_DATE_ZERO, cassandra_session
from runtime.kafka.broker_clock import read_broker_time
from runtime.process.job import lower_process_priority, run_job
from runtime.records.control_copies import TABLES, copy_table
from runtime.registry.sources import FAMILIES
from tally.alerts.baseline import parse_snapshot
from tally.config.settings import Settings
from tally.families.family import Family
from tally.families.generation import (
    GENERATION_COLUMNS,
    FirstCoverage,
    Generation,
    first_covering,
    first_covering_generations,
    parse_generation,
)
from tally.time.instants import assume_utc, from_millis
from tally.time.windows import EPOCH

# By family and UTC day.
NamedGenerations = Mapping[tuple[str, date], Collection[int]]
_STORES_AT_ONCE = 500
# A row's key, and the generation that wrote it.
WrittenVersion = tuple[RowKeyColumns, int]
log = structlog.get_logger()


@dataclass(frozen=True)
class KeptGenerations:
    """Generations of a day whose rows are kept; `firsts`: those of the windows they first covered.

    `flips`: the flips by which an answer of the past chooses among them.
    """

    whole: frozenset[int]
    firsts: Sequence[FirstCoverage]
    flips: Collection[Generation]

    def for_window(self, start: datetime) -> list[int]:
        """The generations, ascending, whose rows of the window are kept."""
        first = first_covering(self.firsts, start)
        return sorted(self.whole | ({first.generation} if first is not None else set()))


@dataclass
class SweepReport:
    """Counts of what one run has removed, and of the days that it has looked at."""

    days: int = 0
    versions: int = 0
    flips: int = 0


class SweptVersions(NamedTuple):
    """The versions of a store's day to remove, and the generations of those that stay."""

    superfluous: Sequence[WrittenVersion]
    staying: Collection[int]


def main(argv: Sequence[str] | None = None) -> int:
    """Sweep; return the exit code: 0 done, 1 failed, 78 refused, 2 usage."""
    parser = argparse.ArgumentParser(
        prog="python -m batch_layer.views.sweep",
        description="Remove versions of batch rows that no answer needs any more.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(argv)

    def work() -> None:
        # Readers and rebuilds have priority.
        lower_process_priority()
        settings = Settings.load()
        with cassandra_session(settings) as session:
            now = read_broker_time(settings)
            cutoff = now - timedelta(days=settings.as_of_days)
            # Before anything goes: after a loss of Cassandra the copies are what is left.
            for table in TABLES:
                copy_table(session, settings.control_copies_path, table)
            report = {**asdict(sweep(session, cutoff)), **sweep_tables(session, settings, now)}
        print(json.dumps(report) if given.json else f"sweep: {report}")

    return run_job("sweep", work)


def sweep(session: Session, cutoff: datetime) -> SweepReport:
    """Remove what only answers about an instant before the cutoff (UTC) would need."""
    report, named = SweepReport(), read_named_generations(session)
    for family in FAMILIES.values():
        family_sweep = FamilySweep(session, family, cutoff, named)
        for day, serving in sorted(PointerTable(session, family.name).current().items()):
            family_sweep.sweep_day(day, serving, report)
    return report


def read_named_generations(session: Session) -> dict[tuple[str, date], set[int]]:
    """The generations that baselines were learned from, by family and UTC day."""
    named: dict[tuple[str, date], set[int]] = defaultdict(set)
    rows = session.execute("SELECT first_day, made_at, days FROM baseline_snapshot")
    for row in rows:
        snapshot = parse_snapshot(row.first_day.date(), assume_utc(row.made_at), row.days)
        for family, days in snapshot.days.items():
            for pinned in days:
                named[family, pinned.day].add(pinned.generation)
    return named


def find_kept(
    history: Sequence[Generation], serving: Generation, cutoff: datetime, named: Collection[int]
) -> KeptGenerations:
    """Of a day's flips, in their order, what answers from the cutoff on need.

    Example, with a cutoff at 12:00: of flips at 9:00, 10:00, 11:00 and 13:00 the first and the last
    two stay, the first one for the windows that it was the first to cover.
    """
    ended = {id(flip) for flip, later in pairwise(history) if later.flipped_at <= cutoff}
    flips = [flip for flip in history if id(flip) not in ended]
    recent = {flip.generation for flip in flips}
    firsts = first_covering_generations(history, serving)
    return KeptGenerations(frozenset({serving.generation, *recent, *named}), firsts, flips)


def find_superfluous(
    versions: Iterable[BatchRowVersion], kept: KeptGenerations, published: Collection[int]
) -> SweptVersions:
    """Which versions of a store's day no kept generation has."""
    by_row: dict[RowKeyColumns, list[int]] = defaultdict(list)
    for key, generation, _ in versions:
        by_row[key].append(generation)
    newest = max(kept.whole)
    superfluous, staying = list[WrittenVersion](), set[int]()
    for key, generations in by_row.items():
        needed = set[int]()
        for wanted in kept.for_window(from_millis(key[0])):
            shown = [number for number in generations if number <= wanted and number in published]
            needed.update([max(shown)] if shown else ())
        # Those above the serving one are of a run that may be about to publish.
        staying |= needed
        gone = (number for number in generations if number not in needed and number < newest)
        superfluous += ((key, number) for number in gone)
    return SweptVersions(superfluous, staying)


@dataclass
class FamilySweep:
    """Sweeps the days of a family, each store by store."""

    session: Session
    family: Family
    cutoff: datetime
    named: NamedGenerations
    spans: list[tuple[str, int, int]] = field(init=False)

    def __post_init__(self) -> None:
        family, table = self.family, read_store_spans(self.session, self.family)
        columns = (table[name].to_pylist() for name in ("store_id", "first_day", "last_day"))
        self.spans = [*zip(*columns, strict=True)]
        self._rows = StoredRows(self.session, family)
        names = ("store_id", "day", *family.row_key, "generation")
        condition = " AND ".join(f'"{name}" = ?' for name in names)
        self._delete = binder(
            prepare_idempotent(self.session, f"DELETE FROM {family.batch_table} WHERE {condition}")
        )

    def sweep_day(self, day: date, serving: Generation, report: SweepReport) -> None:
        """Remove superfluous versions of a UTC day, then the flips that nothing needs any more."""
        history = self._read_history(day)
        if not self._has_ended_flips(day, history):
            return
        report.days += 1
        named = self.named.get((self.family.name, day), ())
        kept = find_kept(history, serving, self.cutoff, named)
        # Before anything goes: an answer about an instant before it is refused from now on.
        self._mark(day)
        staying = {*kept.whole, *(first.covering.generation for first in kept.firsts)}
        published = {serving.generation, *(flip.generation for flip in history)}
        for lot in chunks(self._stores(day), _STORES_AT_ONCE):
            keys = [(store_id, (day - EPOCH.date()).days) for store_id in lot]
            for store_day, versions in self._rows.read_versions(keys).items():
                swept = find_superfluous(versions, kept, published)
                self._remove(store_day, swept.superfluous)
                report.versions += len(swept.superfluous)
                staying.update(swept.staying)
        # While a version of it is there, its generation is among the published ones.
        ended = [flip for flip in history if flip not in kept.flips]
        gone = [flip for flip in ended if flip.generation not in staying]
        self._remove_flips(gone)
        report.flips += len(gone)

    def _has_ended_flips(self, day: date, history: Sequence[Generation]) -> bool:
        """Whether a flip has replaced another before the cutoff, and after the last sweep's."""
        [rows] = self._read_day("SELECT until FROM swept_day", day)
        ends = [later.flipped_at for _, later in pairwise(history)]
        ends = [end for end in ends if end <= self.cutoff]
        return bool(ends) and (not rows or max(ends) > assume_utc(rows[0].until))

    def _read_history(self, day: date) -> list[Generation]:
        [rows] = self._read_day(f"SELECT {GENERATION_COLUMNS} FROM batch_pointer_history", day)
        flips = map(parse_generation, rows)
        return sorted(flips, key=lambda flip: (flip.flipped_at, flip.generation))

    def _read_day(self, select: str, day: date) -> list[list[Any]]:
        # Prepared, as every statement with a day: as text the driver writes no early date.
        statement = prepare_idempotent(self.session, f"{select} WHERE family = ? AND day = ?")
        return read_many(self.session, statement, [(self.family.name, day)])

    def _stores(self, day: date) -> list[str]:
        number = (day - EPOCH.date()).days
        return sorted(store for store, first, last in self.spans if first <= number <= last)

    def _mark(self, day: date) -> None:
        text = "INSERT INTO swept_day (family, day, until) VALUES (?, ?, ?)"
        write_rows(self.session, text, [(self.family.name, day, self.cutoff)])

    def _remove(self, of: StoreDay, versions: Iterable[WrittenVersion]) -> None:
        store_id, day = of
        place = store_id, day + CQL_DATE_ZERO
        # A version is written once: a retried delete hides nothing that comes later.
        keys = ((*place, *key, number) for key, number in versions)
        groups = ([self._delete(key)] for key in keys)
        write_groups(self.session, groups)

    def _remove_flips(self, flips: Iterable[Generation]) -> None:
        text = (
            "DELETE FROM batch_pointer_history"
            " WHERE family = ? AND day = ? AND generation = ? AND flipped_at = ?"
        )
        name = self.family.name
        keys = ((name, flip.day, flip.generation, flip.flipped_at) for flip in flips)
        write_rows(self.session, text, keys)


if __name__ == "__main__":
    sys.exit(main())
