"""Families whose events each add to the window of their own instant: sales, people counts.

The events that two writers have of a window are nested (both have read a prefix of one partition),
so the writer that has seen more has all events of the other.
"""

from collections.abc import Sequence
from typing import ClassVar

from tally.algebra.merge import MISSING, Axes, MergedWindow, Parts, WindowState, newer_state
from tally.algebra.parts import Part
from tally.families.kind import Kind, Side


class Additive(Kind):
    """The kind whose merge prefers the higher epoch, then more events, then batch."""

    name: ClassVar[str] = "additive"

    def merge(
        self,
        parts: Sequence[Part],
        speed: Side,
        batch: Side,
        covered: bool,
    ) -> MergedWindow:
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
        if speed.epoch != batch.epoch:
            return (
                f"{_higher_side(speed.epoch, batch.epoch)}:"
                f" the higher definition epoch wins (batch {batch.epoch}, speed {speed.epoch})"
            )
        if speed.events != batch.events:
            seen = f"(batch {batch.events}, speed {speed.events})"
            return (
                f"{_higher_side(speed.events, batch.events)}:"
                f" the side that has seen more events wins {seen}"
            )
        return f"batch: both have seen the same {batch.events} events, so they are the same events"


def _higher_side(speed: int, batch: int) -> str:
    return "speed" if speed > batch else "batch"


def _explain_single_side(speed: Side, batch: Side) -> str:
    if speed is None and batch is None:
        return "missing: no generation covers the window and the speed layer has no row of it"
    if batch is None:
        return "speed: no generation covers the window, and none has a row"
    if batch.events:
        return "batch: the speed layer has no row"
    return "batch: covered without a row in either layer, a true zero"


def _subtract_excluded(
    parts: Sequence[Part], speed: WindowState, batch: Side
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
    # If a dimension was renamed between the layers, its exclusions still belong to the total.
    excluded = batch.excluded.items()
    emptied = [axes for axes, taken in excluded if any(taken.values())]
    return {
        axes: _subtract_parts(
            parts,
            speed.values.get(axes, {}),
            batch.excluded.get(axes, {}),
        )
        for axes in dict.fromkeys((*speed.values, *emptied))
    }


def _subtract_parts(parts: Sequence[Part], whole: Parts, taken: Parts) -> Parts:
    return {
        part.name: part.minus(
            whole.get(part.name, part.zero),
            taken.get(part.name, part.zero),
        )
        for part in parts
        if part.name in whole or part.name in taken
    }


ADDITIVE = Additive()
