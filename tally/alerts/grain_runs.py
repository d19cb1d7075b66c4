"""Runs of hours and of days: what a fold gets of a rule that is judged once in each of them.

In the other windows such a rule says nothing, and there a fold that got them would break its runs.
So it gets those windows alone in which an hour or a day ends: `for` and `clear_for` count hours or
days.
"""

from collections.abc import Collection, Iterable, Iterator

from msgspec import structs

from tally.alerts.fold import JudgedStretch
from tally.alerts.verdict import LEAVES


def counted_stretches(
    pieces: Iterable[tuple[JudgedStretch, Collection[int] | None]],
) -> list[JudgedStretch]:
    """The stretches of a day as they are folded.

    In:  the day's stretches in their order, each with the starts of the windows in which an hour or
         a day ends; None: each window counts.
    Out: of the others those windows alone, and any in which something else is said. `complete` of
         all together is as many windows as are complete from the day's first one on, or fewer by
         those of an hour or a day that is not.
    """
    each = [*pieces]
    if all(ends is None for _, ends in each):
        return [stretch for stretch, _ in each]
    found: list[JudgedStretch] = []
    is_whole = True
    for stretch, ends in each:
        whole = [(stretch, len(stretch.verdicts))]
        for one, count in whole if ends is None else _cut(stretch, ends):
            # Behind a hole nothing is settled, however complete it is.
            found.append(one if is_whole else structs.replace(one, complete=0))
            is_whole = is_whole and one.complete == count
    return found


def _cut(stretch: JudgedStretch, ends: Collection[int]) -> Iterator[tuple[JudgedStretch, int]]:
    """A stretch for each window that counts, and one of none for the rest; each with the number of
    windows that it stands for."""
    verdicts, complete, begin = stretch.verdicts, stretch.complete, 0
    # Nothing is folded of it: it says where the day begins.
    yield structs.replace(stretch, verdicts=b"", complete=0), 0
    for place, verdict in enumerate(verdicts):
        if stretch.window(place) in ends or verdict != LEAVES[0]:
            count = place + 1 - begin
            yield (
                structs.replace(
                    stretch,
                    start=stretch.window(place),
                    verdicts=verdicts[place : place + 1],
                    complete=count if complete > place else 0,
                ),
                count,
            )
            begin = place + 1
    rest = len(verdicts) - begin
    whole = rest if complete == len(verdicts) else 0
    behind = stretch.window(begin)
    yield structs.replace(stretch, start=behind, verdicts=b"", complete=whole), rest
