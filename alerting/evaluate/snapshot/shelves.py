"""The stock of a store's articles in the windows of a local day, kept as the moves in them."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from alerting.alert.ids import subject_text
from tally.algebra.shelf import WindowStock


class ShelfStep(NamedTuple):
    """The levels of an article in the window with that number, from 0 on.

    Until the article's next step its last level stands: WindowStock(level, level).
    """

    window: int
    levels: WindowStock


# The levels by article, in thousandths.
WindowMoves = Mapping[str, WindowStock]
# The steps of one article, by window ascending; the first step is of window 0.
ShelfSteps = tuple[ShelfStep, ...]


class DayShelves:
    """All articles of a store on a local day, by the subjects that alert ids use.

    Its size grows with the number of articles and moves. `is_partial`: articles of unknown stock
    may have been counted before the rows that were read.
    """

    def __init__(self, moves: Sequence[WindowMoves], *, is_partial: bool = False) -> None:
        """`moves`: the moves of each window by article; the first window has all articles."""
        self.is_partial = is_partial
        steps: dict[str, list[ShelfStep]] = defaultdict(list)
        for window, moved in enumerate(moves):
            for article, reached in moved.items():
                steps[article].append(ShelfStep(window, reached))
        self._steps: dict[str, ShelfSteps] = {}
        for article, article_steps in steps.items():
            self._steps[subject_text("item", article)] = tuple(article_steps)
        self._by_lowest = _subjects_by_lowest(self._steps, len(moves))

    @property
    def subjects(self) -> Collection[str]:
        """All articles, whether they were ever counted or not."""
        return self._steps.keys()

    def unknown_subjects(self) -> Iterator[str]:
        """The articles whose stock at the end of the day is unknown."""
        for subject, steps in self._steps.items():
            if steps[-1].levels.level is None:
                yield subject

    def steps_for(self, subject: str) -> ShelfSteps:
        """The article's steps; articles with equal steps are evaluated alike."""
        return self._steps.get(subject, ())

    def levels_at(self, subject: str, window: int) -> WindowStock | None:
        """The levels in the window with that number; None for an article that is not there."""
        steps = self.steps_for(subject)
        place = bisect_right(steps, window, key=_step_window) - 1
        if place < 0:
            return None
        step = steps[place]
        level = step.levels.level
        return step.levels if step.window == window else WindowStock(level, level)

    def matching_subjects(self, holds: Callable[[int], bool]) -> Iterator[str]:
        """The articles whose lowest stock in a window, in thousandths, fulfils the condition.

        An article may come several times. `holds` is called once for each distinct number.
        """
        for lowest, subjects in self._by_lowest.items():
            if holds(lowest):
                yield from subjects


@dataclass(frozen=True, slots=True)
class WindowShelves:
    """The articles in one window of the day."""

    day: DayShelves
    window: int

    def __bool__(self) -> bool:
        return bool(self.day.subjects)

    def levels(self, subject: str) -> WindowStock | None:
        """The levels of the article; None if it is not there."""
        return self.day.levels_at(subject, self.window)

    @property
    def is_counted(self) -> bool:
        """Whether the stock of any article is known."""
        levels = map(self.levels, self.day.subjects)
        return any(reached is not None and reached.level is not None for reached in levels)


class StockSpeedRows(NamedTuple):
    """The rows of the speed layer that a level depends on.

    `start`: their first window (ms since 1970, UTC). `epoch`: the highest epoch of the generations
    that serve the days since the last counts.
    """

    family: str
    start: int
    epoch: int


def _step_window(step: ShelfStep) -> int:
    return step.window


def _subjects_by_lowest(
    articles: Mapping[str, ShelfSteps],
    windows: int,
) -> dict[int, list[str]]:
    """The articles by the lowest stock, in thousandths, that they had in a window."""
    found: dict[int, list[str]] = defaultdict(list)
    for subject, steps in articles.items():
        ends = [*(step.window for step in steps[1:]), windows]
        for (window, (level, lowest)), end in zip(steps, ends, strict=True):
            if lowest is not None:
                found[lowest].append(subject)
            # The last level stands in all windows until the article's next move.
            is_left = window + 1 < end and level != lowest
            if is_left and level is not None:
                found[level].append(subject)
    return found
