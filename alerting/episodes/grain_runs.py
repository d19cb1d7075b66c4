"""Runs of hours and days: the windows that are folded for a rule that is judged once in each.

In all other windows such a rule has no verdict, and folding them would break its runs. So only the
windows in which an hour or a day ends are folded, and `for` and `clear_for` count hours or days.
"""

from collections.abc import Collection, Iterable, Iterator

from msgspec import structs

from alerting.episodes.fold import VerdictRange
from alerting.episodes.verdict import LEAVES


def reduce_to_grain(
    pieces: Iterable[tuple[VerdictRange, Collection[int] | None]],
) -> list[VerdictRange]:
    """The stretches of a day as they are folded.

    In:  the day's stretches in their order, each with the starts of the windows in which an hour or
         a day ends; None where each window counts.
    Out: stretches with such starts are reduced to those windows, and to any others with a verdict.
         The sum of `complete` is the number of windows that are complete from the day's first one
         on, without those of an incomplete hour or day.
    """
    listed = [*pieces]
    if all(ends is None for _, ends in listed):
        return [stretch for stretch, _ in listed]
    found: list[VerdictRange] = []
    is_whole = True
    for stretch, ends in listed:
        whole = [(stretch, len(stretch.verdicts))]
        for piece, count in whole if ends is None else _split_range(stretch, ends):
            # After an incomplete window nothing is settled, even if later windows are complete.
            found.append(piece if is_whole else structs.replace(piece, complete=0))
            is_whole = is_whole and piece.complete == count
    return found


def _split_range(
    stretch: VerdictRange, ends: Collection[int]
) -> Iterator[tuple[VerdictRange, int]]:
    """A stretch for each counted window, and an empty one for the rest.

    Each comes with the number of windows that it stands for.
    """
    verdicts, complete, begin = stretch.verdicts, stretch.complete, 0
    # This empty stretch folds nothing; it marks where the day begins.
    yield structs.replace(stretch, verdicts=b"", complete=0), 0
    for place, verdict in enumerate(verdicts):
        if stretch.window_start(place) in ends or verdict != LEAVES[0]:
            count = place + 1 - begin
            yield (
                structs.replace(
                    stretch,
                    start=stretch.window_start(place),
                    verdicts=verdicts[place : place + 1],
                    complete=count if complete > place else 0,
                ),
                count,
            )
            begin = place + 1
    rest = len(verdicts) - begin
    whole = rest if complete == len(verdicts) else 0
    rest_start = stretch.window_start(begin)
    yield structs.replace(stretch, start=rest_start, verdicts=b"", complete=whole), rest
