"""The results of a simulation in one store."""

from collections.abc import Collection, Iterable, Mapping
from datetime import date
from typing import NamedTuple

from msgspec import structs

from alerting.episodes.fold import Episode
from alerting.evaluate.snapshot.calendar import WindowSpan
from alerting.simulate.comparison import AlertComparison, ComparisonSpan
from tally.time.instants import from_millis


class SimulatedEpisode(NamedTuple):
    """An episode; its windows are given by their starts in milliseconds since 1970 (UTC).

    `value`: the number of the window that raised it, in the metric's unit; `threshold`: the number
    that it was compared with. `is_complete`: whether all windows from the begin of its first day to
    its end are served complete.
    """

    store_id: str
    subject: str
    episode: Episode
    value: int | float | None
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
    """The number by which the rule judged a window, in the metric's unit.

    `window`: its start, ms since 1970 (UTC). `value`: None if the window is not served complete,
    silent, or withheld.
    """

    window: int
    value: int | float | None


class SimulatedStore(NamedTuple):
    """A store's episodes in the requested span, and the parts of it that are uncertain.

    `spans`: by subject the folded windows, for each subject that the rule calls for. `since`: the
    first folded window, ms since 1970 (UTC). `uncertain_subjects`: subjects whose result may depend
    on earlier windows. `articles`: how many articles a stock rule has looked at. `values`: by
    subject the values of the windows of the span, if they were requested.
    """

    store_id: str
    spans: Mapping[str, ComparisonSpan]
    episodes: tuple[SimulatedEpisode, ...]
    incomplete_days: tuple[IncompleteDay, ...]
    since: int
    uncertain_subjects: frozenset[str]
    articles: int = 0
    values: Mapping[str, tuple[WindowValue, ...]] = {}

    @property
    def is_certain(self) -> bool:
        """Whether no window before the folded days could change the result."""
        return not self.uncertain_subjects


class SimulatedPage(NamedTuple):
    """Some stores by their ids, ascending; `after`: the last of them if there are more.

    `comparisons`: by store and subject the difference from the alerts that were sent, if requested.
    `unevaluated_days`: UTC days that are served by another generation than the one that the
    evaluators have judged, so that their comparison would mean nothing.
    """

    stores: tuple[SimulatedStore, ...]
    comparisons: Mapping[tuple[str, str], AlertComparison]
    unevaluated_days: tuple[date, ...]
    after: str | None


def unsettle_days(days: Collection[date], span: ComparisonSpan) -> ComparisonSpan:
    """The span with all windows of the UTC days unsettled: unjudged windows are no difference."""
    settled = (start for start in span.settled if from_millis(start).date() not in days)
    return structs.replace(span, settled=frozenset(settled))


def unsettle_all(span: ComparisonSpan) -> ComparisonSpan:
    """The span with all its windows unsettled."""
    return structs.replace(span, settled=frozenset())


def days_in_span(windows: Iterable[int], span: WindowSpan) -> set[date]:
    """The UTC days of the windows that lie in the span."""
    return {from_millis(start).date() for start in windows if start in span.windows}
