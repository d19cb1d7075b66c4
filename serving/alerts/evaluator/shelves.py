"""What there is of a store's articles in the windows of a local day, kept as what moved in them."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tally.alerts.ids import subject_text
from tally.algebra.shelf import Reached


class ShelfStep(NamedTuple):
    """What there was of an article in the window of that number, from 0 on.

    Until its next step there is what it left: Reached(level, level).
    """

    window: int
    reached: Reached


# By article, thousandths.
WindowMoves = Mapping[str, Reached]
# Of one article, by window ascending, the first of them of window 0.
ShelfSteps = tuple[ShelfStep, ...]


class DayShelves:
    """All articles of a store on a local day, by their subjects as ids of alerts have them.

    It holds as much as there are articles and moves. `is_partial`: articles that are not known may
    have been counted before what was read.
    """

    def __init__(self, moves: Sequence[WindowMoves], *, is_partial: bool = False) -> None:
        """`moves`: by window what moved in it, by article; the first window has all articles."""
        self.is_partial = is_partial
        steps: dict[str, list[ShelfStep]] = defaultdict(list)
        for window, moved in enumerate(moves):
            for article, reached in moved.items():
                steps[article].append(ShelfStep(window, reached))
        self._steps: dict[str, ShelfSteps] = {}
        for article, some in steps.items():
            self._steps[subject_text("item", article)] = tuple(some)
        self._by_lowest = _by_lowest(self._steps, len(moves))

    @property
    def subjects(self) -> Collection[str]:
        """All articles, whether anybody has counted them or not."""
        return self._steps.keys()

    def unknown(self) -> Iterator[str]:
        """Articles of which at the end of the day nobody knows what there is."""
        for subject, steps in self._steps.items():
            if steps[-1].reached.level is None:
                yield subject

    def steps(self, subject: str) -> ShelfSteps:
        """What the article's windows hang on: articles of equal steps are judged alike."""
        return self._steps.get(subject, ())

    def reached(self, subject: str, window: int) -> Reached | None:
        """What there was in the window of that number; None of an article that is not there."""
        steps = self.steps(subject)
        place = bisect_right(steps, window, key=_window_of) - 1
        if place < 0:
            return None
        step = steps[place]
        level = step.reached.level
        return step.reached if step.window == window else Reached(level, level)

    def calling(self, holds: Callable[[int], bool]) -> Iterator[str]:
        """Articles of which the least of a window, in thousandths, fulfils the condition; perhaps
        several times. Each number that there was is asked once, whatever has it."""
        for lowest, subjects in self._by_lowest.items():
            if holds(lowest):
                yield from subjects


@dataclass(frozen=True, slots=True)
class WindowShelves:
    """One window of the day."""

    day: DayShelves
    window: int

    def __bool__(self) -> bool:
        return bool(self.day.subjects)

    def get(self, subject: str) -> Reached | None:
        """What there was of the article; None where it is not there."""
        return self.day.reached(subject, self.window)

    @property
    def is_counted(self) -> bool:
        """Whether it is known of any article what there was."""
        found = map(self.get, self.day.subjects)
        return any(one is not None and one.level is not None for one in found)


def _window_of(step: ShelfStep) -> int:
    return step.window


def _by_lowest(
    articles: Mapping[str, ShelfSteps],
    windows: int,
) -> dict[int, list[str]]:
    """By the least that there was in a window the articles of which there was so little."""
    found: dict[int, list[str]] = defaultdict(list)
    for subject, steps in articles.items():
        ends = [*(one.window for one in steps[1:]), windows]
        for (window, (level, lowest)), end in zip(steps, ends, strict=True):
            if lowest is not None:
                found[lowest].append(subject)
            # What was left, of the windows until something moves again.
            is_left = window + 1 < end and level != lowest
            if is_left and level is not None:
                found[level].append(subject)
    return found
