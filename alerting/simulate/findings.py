"""What a simulation is asked for, and its results."""

from collections.abc import Mapping
from datetime import date
from typing import NamedTuple

from alerting.episodes.fold import Episode
from alerting.evaluate.snapshot.calendar import WindowSpan
from alerting.rules.rule import Rule


class SimulationRequest(NamedTuple):
    """A request to simulate a rule on a span of windows, in milliseconds since 1970 (UTC).

    `draft`: a rule that replaces all its versions.
    """

    rule_id: str
    span: WindowSpan
    stores: frozenset[str] | None = None
    draft: Rule | None = None
    with_values: bool = False


class SimulatedEpisode(NamedTuple):
    """An episode; its windows are given by their starts in milliseconds since 1970 (UTC).

    `value`: the number of the window that raised it, in the metric's unit; `threshold`: the number
    that it was compared with. `is_complete`: whether all windows from the begin of its first day to
    its end are served complete.
    """

    store_id: str
    subject: str
    episode: Episode
    value: float | None
    threshold: float | None
    is_complete: bool


class IncompleteDay(NamedTuple):
    """A local day with windows that are not served complete.

    `incomplete_windows`: their number, among the `requested_windows` requested windows of the day;
    these lie in [start, end), in milliseconds since 1970 (UTC).
    """

    store_id: str
    day: date
    start: int
    end: int
    incomplete_windows: int
    requested_windows: int


class WindowValue(NamedTuple):
    """The number by which the rule evaluated a window, in the metric's unit.

    `window`: its start, ms since 1970 (UTC). `value`: None if the window is not served complete,
    silent, or withheld.
    """

    window: int
    value: int | float | None


class SimulatedStore(NamedTuple):
    """A store's episodes in the requested span, and the parts of it that are uncertain.

    `since`: the first evaluated window, ms since 1970 (UTC). `is_certain`: whether no window before
    it could change the result. `articles`: how many articles a stock rule has looked at. `values`:
    by subject the values of the windows of the span, if they were requested.
    """

    store_id: str
    episodes: tuple[SimulatedEpisode, ...]
    incomplete_days: tuple[IncompleteDay, ...]
    since: int
    is_certain: bool
    articles: int = 0
    values: Mapping[str, tuple[WindowValue, ...]] = {}


class SimulatedPage(NamedTuple):
    """Some stores by their ids, ascending; `after`: the last of them if there are more."""

    stores: tuple[SimulatedStore, ...]
    after: str | None
