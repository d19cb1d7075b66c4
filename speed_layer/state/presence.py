"""Sightings of a partition in the state, and the rows of the stores' windows computed from them.

The state of each store is its key periods (tally/people/presence.py), and its frontier by its own
sightings, so that another store's clock cannot close its visits. Rows are a function of the records
in order of offset: the cuts between micro-batches make no difference to the last rows.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import reduce
from typing import NamedTuple

from speed_layer.state.partition_windows import PagedState, WindowRow
from speed_layer.state.presence_pages import (
    NUMBER_BYTES,
    Devices,
    KeySpan,
    PeriodPages,
    PeriodRows,
    PresencePages,
    StoredPeriod,
    StoredStore,
)
from tally.families.family import Family
from tally.people.heard import MAC_CLASSES, NEVER, Sighting
from tally.people.presence import KeyPeriod
from tally.people.visits import MINUTE_SECONDS, UNKNOWN_HOURS, parse_period_hours

MINUTE_MILLIS = 1000 * MINUTE_SECONDS


class SightingRecord(NamedTuple):
    """A record: the sighting, its store, and the key period in which its device is recognisable."""

    store: str
    period: KeySpan
    sighting: Sighting
    opening: str = UNKNOWN_HOURS


@dataclass(kw_only=True)
class PartitionPresences(PagedState):
    """The state of one partition of a family that is read from presences, in key periods."""

    family: Family
    # Whether the rules of stores were revised since the last records were taken.
    is_revised: bool = False

    def next_start(self) -> int:
        """The instant after the frontier: key periods begin at any instant."""
        return self.frontier + 1

    def take(self, records: Sequence[SightingRecord], position: int) -> Iterator[WindowRow]:
        """Yield the rows of each window that the records, in order of offset, change.

        `position` is how far the partition was read, exclusive: the further of two states is later.
        """
        pages = PresencePages(self.pages, self.page_keys)
        by_store: dict[str, list[SightingRecord]] = defaultdict(list)
        for record in records:
            self.frontier = max(self.frontier, 1000 * record.sighting.seconds)
            if record.period.start * MINUTE_MILLIS < self.floor:
                self.below_floor += 1
            else:
                by_store[record.store].append(record)
        stores = pages.stores() if self.is_revised else ()
        for store in sorted({*by_store, *stores}):
            yield from self._take_store(store, by_store[store], position, pages)
        pages.write()
        self.is_revised = False

    def _take_store(
        self, store: str, records: Sequence[SightingRecord], position: int, pages: PresencePages
    ) -> Iterator[WindowRow]:
        kept = pages.store(store)
        # All stored periods, even without new records: an advancing store closes visits in each.
        known = {KeySpan(stored.start, stored.end): stored for stored in kept.periods}
        taken: dict[KeySpan, list[Sighting]] = {span: [] for span in known}
        # The first record's opening hours hold for the whole period, even if the stores file
        # changes later: a device read by two different hours would become two visits.
        frontier, closed = kept.frontier, kept.closed
        for record in records:
            # The store's frontier before the record decides, independent of micro-batches.
            if record.period.start < closed or self._is_over(record.period, frontier):
                self.late += 1
                continue
            taken.setdefault(record.period, []).append(record.sighting)
            begun_by = StoredPeriod(*record.period, opening=record.opening)
            known.setdefault(record.period, begun_by)
            # Only an advance of the frontier can end further periods.
            if record.sighting.minute > frontier:
                frontier = record.sighting.minute
                over = (begun.end for begun in taken if self._is_over(begun, frontier))
                closed = max(closed, *over, NEVER)
        owns: dict[KeySpan, KeyPeriod] = {}
        for span in sorted(known):
            owns[span] = self._load_period(store, known[span], kept.frontier, pages)
        # Outdated ones are recomputed first: add_sightings() takes back by the current rules.
        both = ((known[span], own) for span, own in owns.items())
        starts = [own.recompute_rows() for before, own in both if self._is_outdated(before, own)]
        starts += [own.add_sightings(taken[period], frontier) for period, own in owns.items()]
        for start in sorted(set().union(*starts)):
            yield from self._rows(store, start, list(owns.values()), position)
        running = [open_span for open_span in owns if not self._is_over(open_span, frontier)]
        left = []
        for period, own in owns.items():
            # A period that is over is kept as long as it shares windows with a running one.
            if any(period.overlaps(open_span) for open_span in running):
                left.append(_to_stored_period(period, own, known[period].opening))
            else:
                pages.delete_period(store, period)
        pages.put_store(store, StoredStore(frontier, left, closed))

    def _is_outdated(self, kept: StoredPeriod, own: KeyPeriod) -> bool:
        # A period of which this is the first record has no rows yet.
        return self.is_revised and kept.rules != [*astuple(own.rules)]

    def _is_over(self, period: KeySpan, frontier: int) -> bool:
        return period.end + self.lateness // MINUTE_MILLIS <= frontier

    def _load_period(
        self, store: str, kept: StoredPeriod, frontier: int, pages: PresencePages
    ) -> KeyPeriod:
        hours = parse_period_hours(kept.opening, kept.start, kept.end)
        own = PeriodPages(pages, store, KeySpan(kept.start, kept.end))
        waiting = {int.from_bytes(number): until for number, until in kept.waiting.items()}
        return KeyPeriod(
            self.family.parts,
            self.family.visit_rules.rules_for(store, kept.start),
            hours,
            frontier=frontier,
            devices=Devices(own),
            rows=PeriodRows(own, self.family.parts, hours),
            waiting=waiting,
        )

    def _rows(
        self, store: str, start: int, owns: Sequence[KeyPeriod], position: int
    ) -> Iterator[WindowRow]:
        # All rows over all periods: one that was not written with the others would be of an earlier
        # state. Periods overlap where a store's zone, or how long a key is kept, has changed.
        at = start * MINUTE_MILLIS
        nothing = tuple(part.zero for part in self.family.parts)
        for mac_class in MAC_CLASSES:
            rows = [own.values((start, mac_class)) for own in owns]
            columns = zip(self.family.parts, *rows, strict=True)
            values = tuple(reduce(part.plus, held) for part, *held in columns)
            # Sightings of an access point are never taken back: without any, no row has to replace
            # another.
            if mac_class == "access_point" and values == nothing:
                continue
            yield WindowRow(store, at, (mac_class,), position, values)


def _to_stored_period(period: KeySpan, own: KeyPeriod, opening: str) -> StoredPeriod:
    waiting = {number.to_bytes(NUMBER_BYTES): until for number, until in own.waiting.items()}
    return StoredPeriod(*period, waiting, opening, [*astuple(own.rules)])
