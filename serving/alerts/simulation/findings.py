"""What a simulation finds in one store."""

from collections.abc import Mapping
from datetime import date
from typing import NamedTuple

from tally.alerts.fold import Episode
from tally.alerts.simulated import FoldedSpan


class SimulatedEpisode(NamedTuple):
    """An episode, windows by their starts in milliseconds since 1970 (UTC).

    `value`: of the window that raised it, in the metric's unit; `threshold`: what it was compared
    with. `is_complete`: all windows from its day's begin up to its end are served complete.
    """

    store_id: str
    subject: str
    episode: Episode
    value: int | float | None
    threshold: float | None
    is_complete: bool


class IncompleteDay(NamedTuple):
    """A local day of which windows are not served complete: how many of those asked for.

    These are of [start, end), in milliseconds since 1970 (UTC).
    """

    store_id: str
    day: date
    start: int
    end: int
    windows: int
    of: int


class JudgedValue(NamedTuple):
    """The number of a window as the rule was judged by it, in the metric's unit.

    `window`: its start, ms since 1970 (UTC). None: not served complete, silent, or withheld.
    """

    window: int
    value: int | float | None


class SimulatedStore(NamedTuple):
    """A store's episodes of the span that was asked for, and what of it nobody knows for sure.

    `spans`: by subject the windows as they were folded, of whatever is called for. `since`: from
    which window on, ms since 1970 (UTC). `unsure`: subjects that what was before that may have made
    otherwise. `articles`: how many a rule of stock has looked at. `values`: by subject those of
    each window of the span, where they were asked for.
    """

    store_id: str
    spans: Mapping[str, FoldedSpan]
    episodes: tuple[SimulatedEpisode, ...]
    incomplete: tuple[IncompleteDay, ...]
    since: int
    unsure: frozenset[str]
    articles: int = 0
    values: Mapping[str, tuple[JudgedValue, ...]] = {}

    @property
    def is_sure(self) -> bool:
        """Whether nothing before the days that were folded could make a difference."""
        return not self.unsure
