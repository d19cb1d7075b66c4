"""The laws as functions of the merge rule, so that a wrong rule can be shown to break them."""

from collections.abc import Sequence

from tally.algebra.parts import Part
from tests.laws.layers.history import (
    AMOUNT,
    WINDOWS,
    Cut,
    Event,
    Merge,
    batch_state,
    first_copies,
    of_window,
    recomputed,
    served,
    total,
    value_of,
)


def check_equals_recompute(
    merge: Merge, log: Sequence[Event], cut: Cut, part: Part = AMOUNT
) -> None:
    """Every window's served total is the recompute's; nothing is missing that one of the layers
    holds."""
    for window in WINDOWS:
        found = served(merge, log, window, cut, part)
        is_known = cut.speed[window] > 0 or bool(of_window(log[: cut.batch], window))
        assert (total(found, part), found.source != "missing", found.values is not None) == (
            recomputed(log, window, cut, part),
            is_known,
            is_known,
        )


def check_never_falls(merge: Merge, log: Sequence[Event], moments: Sequence[Cut]) -> None:
    """Served totals while both layers only move on (for sales without conflicts in other
    windows)."""
    for window in WINDOWS:
        now = Cut(0, (0,) * len(WINDOWS))
        told = 0
        for moment in moments:
            now = Cut(
                max(now.batch, moment.batch),
                tuple(max(pair) for pair in zip(now.speed, moment.speed, strict=True)),
            )
            value = total(served(merge, log, window, now))
            assert value >= told
            told = value


def check_conflicts_stay_away(
    merge: Merge, log: Sequence[Event], cut: Cut, part: Part = AMOUNT
) -> None:
    """Attack H10: whatever speed reads after the rebuild, the served value holds nothing that
    batch has excluded."""
    for window in WINDOWS:
        batch = batch_state(log, window, cut.batch, part)
        excluded = (
            {one for one, event in first_copies(log[: cut.batch]).items() if event.window != window}
            if batch
            else set()
        )
        everything = Cut(cut.batch, tuple(len(of_window(log, one)) for one in WINDOWS))
        here = first_copies(of_window(log, window))
        known = {event.identity for event in of_window(log[: cut.batch], window)}
        left_out = excluded & known
        if left_out and not part.is_invertible:
            # What cannot be taken back is as batch has it, until its next rebuild.
            here = first_copies(of_window(log[: cut.batch], window))
        allowed = [event for one, event in here.items() if one not in left_out]
        assert total(served(merge, log, window, everything, part), part) == value_of(allowed, part)
