"""The blocks of a store's local day: the finest stretches that an answer may show."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from itertools import chain
from typing import NamedTuple

from serving.merge.served import ServedWindow, is_settled
from serving.questions import grains
from tally.algebra.merge import Axes, Parts
from tally.algebra.parts import Uniques
from tally.families.family import Family
from tally.people.small_cells import PERSON_COUNTS, is_small, split_safe_runs
from tally.time.day_clock import DayClock
from tally.time.windows import TimeRange

TOO_FEW_DEVICES = "too few devices to tell"
NOT_SETTLED = "withheld until all of its days are settled"
# The name of the share that each value of the axes has of a day.
BY = "by"
_FINER = {"1d": "1h", "1h": "15m"}
# By start.
ServedByStart = Mapping[datetime, ServedWindow]


@dataclass(frozen=True)
class DisclosedDay:
    """A local day: why nothing of it is shown, or else the borders of its blocks.

    `shares` are the parts, or BY, that are shown for the day as a whole.
    """

    slot: TimeRange
    suppression_reason: str | None
    borders: frozenset[datetime] = frozenset()
    shares: frozenset[str] = frozenset()


class _Block(NamedTuple):
    slot: TimeRange
    parts: Parts
    inside: tuple["_Block", ...] = ()


@dataclass(frozen=True)
class DayCutter:
    """Cuts local days of a store by one table of a family, so that no block is of few devices."""

    family: Family
    table: str
    smallest: int
    clock: DayClock

    def disclose_day(self, day: TimeRange, windows: ServedByStart) -> DisclosedDay:
        """The parts of a day that an answer may show, by all of its windows."""
        quarters = grains.slots(*day, "15m", self.clock)
        own = [windows[quarter.start] for quarter in quarters]
        # The difference between two answers during the day would reveal who came in between.
        if not is_settled(window.status for window in own):
            return DisclosedDay(day, NOT_SETTLED)
        whole = self._build_block(day, "1d", windows)
        if not self._is_safe(whole.parts):
            return DisclosedDay(day, TOO_FEW_DEVICES)
        borders = frozenset((day.start, *self._ends(whole.inside)))
        return DisclosedDay(day, None, borders, frozenset(self._shares(whole.parts, own)))

    def _build_block(self, slot: TimeRange, grain: str, windows: ServedByStart) -> _Block:
        if grain == "15m":
            values = windows[slot.start].merged.values or {}
            return _Block(slot, self.family.join_across_axes([*values.values()]))
        finer = _FINER[grain]
        slots = grains.slots(*slot, finer, self.clock)
        inside = tuple(self._build_block(part, finer, windows) for part in slots)
        return _Block(slot, self._join(piece.parts for piece in inside), inside)

    def _ends(self, stretches: Sequence[_Block]) -> Iterator[datetime]:
        for run in split_safe_runs(stretches, self._plus, lambda piece: self._is_safe(piece.parts)):
            yield run[-1].slot.end
            # Several stretches that are shown as one have no finer blocks inside.
            if len(run) == 1:
                yield from self._ends(run[0].inside)

    def _shares(self, whole: Parts, own: Sequence[ServedWindow]) -> Iterator[str]:
        census = PERSON_COUNTS[self.family.fields.name]
        everyone = self._count(census.tables[self.table][0], whole)
        for name, table in census.shares.items():
            count = self._count(name, whole)
            # Few devices outside of the share are as identifiable as few in it.
            is_of_few = self._is_small(count) or self._is_small(everyone - count)
            if table == self.table and not is_of_few:
                yield name
        if all(map(self._is_safe, self._by_axes(own).values())):
            yield BY

    def _by_axes(self, own: Iterable[ServedWindow]) -> dict[Axes, Parts]:
        held: dict[Axes, Parts] = {}
        rows = ((window.merged.values or {}).items() for window in own)
        for axes, parts in chain.from_iterable(rows):
            held[axes] = self.family.join_over_time(held.get(axes, {}), parts)
        return held

    def _is_safe(self, parts: Parts) -> bool:
        names = PERSON_COUNTS[self.family.fields.name].tables[self.table]
        return not any(self._is_small(self._count(name, parts)) for name in names)

    def _is_small(self, count: int) -> bool:
        return is_small(count, self.smallest)

    def _count(self, name: str, parts: Parts) -> int:
        (part,) = (declared for declared in self.family.parts if declared.name == name)
        value = parts.get(name, part.zero)
        return round(part.estimate(value)) if isinstance(part, Uniques) else int(value)

    def _plus(self, left: _Block, right: _Block) -> _Block:
        both = TimeRange(left.slot.start, right.slot.end)
        return _Block(both, self._join((left.parts, right.parts)))

    def _join(self, every: Iterable[Parts]) -> Parts:
        nothing: Parts = {}
        # Empty parts are skipped: most quarter hours are empty.
        return reduce(self.family.join_over_time, (parts for parts in every if parts), nothing)
