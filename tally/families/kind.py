"""The kinds of families: pure functions over the values of a window in both layers.

A kind says which side a reader believes (`merge`), and why (`explain_choice`).
"""

from abc import ABC, abstractmethod
from typing import ClassVar

from tally.algebra.merge import MISSING, Axes, MergedWindow, Parts, WindowState, newer_state
from tally.algebra.parts import PartList

Side = WindowState | None


class Kind(ABC):
    """One kind of family; it has no state of its own."""

    name: ClassVar[str]

    def __eq__(self, other: object) -> bool:
        # The copy of a family that a Python worker receives is equal to the driver's.
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(self.name)

    @abstractmethod
    def merge(self, parts: PartList, speed: Side, batch: Side, covered: bool) -> MergedWindow:
        """The window as it is served, for a family with these parts; the sides are never added.

        `covered`: a published generation covers it, so a missing row means that nothing happened.
        """

    @abstractmethod
    def explain_choice(self, speed: Side, batch: Side, covered: bool) -> str:
        """A sentence that says which side was believed, and why.

        `batch` is the generation's row; where it covers the window without one, an empty state.
        """


class Additive(Kind):
    """Events each add to the window of their own instant: sales, people counts.

    Its merge prefers the higher epoch, then more events, then batch. The events that two writers
    have of a window are nested (both have read a prefix of one partition), so the writer that has
    seen more has all events of the other.
    """

    name: ClassVar[str] = "additive"

    def merge(self, parts: PartList, speed: Side, batch: Side, covered: bool) -> MergedWindow:
        """The richer side; speed is served without what batch knows to be excluded.

        Parts that cannot be inverted (a minimum, a sketch) are served from batch until its next
        rebuild: an answer that lacks events is better than one with excluded events.
        """
        # Batch first: with equal registers both hold the same events, and batch is the checked one.
        chosen = newer_state(batch, speed)
        if chosen is None:
            return MergedWindow("batch", 0, {}) if covered else MISSING
        if chosen is not batch:
            values = _subtract_excluded(parts, chosen, batch)
            if values is not None:
                return MergedWindow("speed", chosen.events, values)
            assert batch is not None
            chosen = batch
        return MergedWindow("batch", chosen.events, chosen.values)

    def explain_choice(self, speed: Side, batch: Side, covered: bool) -> str:
        """A sentence about the first step of the rule that decided."""
        if speed is None or batch is None:
            return _explain_single_side(speed, batch)
        winner = "speed" if newer_state(batch, speed) is speed else "batch"
        if speed.epoch != batch.epoch:
            epochs = f"(batch {batch.epoch}, speed {speed.epoch})"
            return f"{winner}: the higher definition epoch wins {epochs}"
        if speed.events != batch.events:
            seen = f"(batch {batch.events}, speed {speed.events})"
            return f"{winner}: the side that has seen more events wins {seen}"
        return f"batch: both have seen the same {batch.events} events, so they are the same events"


def _explain_single_side(speed: Side, batch: Side) -> str:
    if speed is None and batch is None:
        return "missing: no generation covers the window and the speed layer has no row of it"
    if batch is None:
        return "speed: no generation covers the window, and none has a row"
    if batch.events:
        return "batch: the speed layer has no row"
    return "batch: covered without a row in either layer, a true zero"


def _subtract_excluded(
    parts: PartList, speed: WindowState, batch: Side
) -> dict[Axes, Parts] | None:
    """Speed's values less what batch knows to be excluded; None where a part is not invertible.

    Speed holds a superset of batch's events, so it holds those too. What batch excluded under axes
    that speed does not have (a dimension was renamed in between) is subtracted there all the same:
    no total depends on a label.
    """
    if batch is None or batch.epoch != speed.epoch or not batch.excluded:
        return dict(speed.values)
    if not all(part.is_invertible for part in parts):
        return None
    excluded = batch.excluded.items()
    emptied = [axes for axes, taken in excluded if any(taken.values())]
    values: dict[Axes, Parts] = {}
    for axes in dict.fromkeys((*speed.values, *emptied)):
        whole = speed.values.get(axes, {})
        taken = batch.excluded.get(axes, {})
        values[axes] = {
            part.name: part.minus(part.value_in(whole), part.value_in(taken))
            for part in parts
            if part.name in whole or part.name in taken
        }
    return values


ADDITIVE = Additive()


class LevelKind(Additive):
    """Families that say how much there is: stock on a shelf, people in a shop.

    A window holds its last count and what moved after it (tally.algebra.level.Level), and is merged
    over the layers as an additive one. Over time `plus` forgets what was before: the level at the
    end of a stretch is the last count in it and the movements since, never the sum of its windows.
    """

    name: ClassVar[str] = "level"


LEVEL = LevelKind()


class Derived(Kind):
    """Events can move to another window, or be taken back, as visits can.

    More events do not mean more truth: a visit that is prolonged leaves the window in which it was
    counted. So the sides are not compared. A rebuild writes rows of what is closed alone, and a
    generation says where a missing row means that nothing happened: there batch is believed,
    elsewhere speed. The `events` of a speed row is the position in the partition, exclusive: a
    later state of the same window wins, even if it holds less.
    """

    name: ClassVar[str] = "derived"

    def merge(self, parts: PartList, speed: Side, batch: Side, covered: bool) -> MergedWindow:
        """Batch where it has a row or covers the window: its rows are of closed windows alone."""
        # How much either side has seen does not matter: a prolonged visit leaves its window poorer.
        # Nor does it matter that no generation covers the whole day: on a day before the first
        # arrival the speed layer may wait for ever for a sighting that closes the last visits.
        if batch is not None:
            return MergedWindow("batch", batch.events, batch.values)
        if covered:
            return MergedWindow("batch", 0, {})
        # The position of a speed row is no number of events.
        return MISSING if speed is None else MergedWindow("speed", None, speed.values)

    def explain_choice(self, speed: Side, batch: Side, covered: bool) -> str:
        """A sentence about what the generation covers, and which rows it has."""
        if covered:
            row = "no row, a true zero" if batch is None or not batch.values else "its row"
            return f"batch: everything in the window is closed, by a generation; {row}"
        if batch is not None:
            return "batch: its row is of a closed window; no generation vouches for the whole of it"
        if speed is None:
            return "missing: no generation covers the window and the speed layer has no row of it"
        return "speed: no generation covers the window yet; what it holds may still move"


DERIVED = Derived()
