"""Whether one rule is judged in one store: its closed windows, from the newest back."""

from collections.abc import Iterator
from datetime import date, timedelta
from typing import NamedTuple

from serving.alerts.evaluator.calendar import (
    WindowSpan,
    start_of_window,
    utc_span,
    watched_windows,
)
from serving.alerts.evaluator.facts import KnownBy, WindowCells
from serving.alerts.evaluator.moment import ReadingWanted, ViewsMoment, wanted_of
from serving.alerts.evaluator.usual import usual_of
from serving.alerts.evaluator.version_metrics import VersionMetrics
from serving.alerts.health.reasons import UnjudgedReason, unjudged_reason
from tally.alerts.rule import RuleVersion
from tally.alerts.tick import Tick
from tally.windows import WINDOW_MILLIS

_ONE_DAY = timedelta(days=1)
# A rule that the evaluator has not processed for this long counts as not judged at all.
_PATIENCE = WINDOW_MILLIS


class StoreHealth(NamedTuple):
    """Whether a rule is judged in a store. `reason`: why it is not; None if it is judged.

    `since`: when that began, ms since 1970 (UTC); None if the rule is judged, or never was.
    `is_earlier`: it may have begun earlier, because earlier days were not searched.
    """

    store_id: str
    reason: UnjudgedReason | None = None
    since: int | None = None
    is_earlier: bool = False


class JudgedPartition(NamedTuple):
    """The merged ticks of a partition, and the time of the tick that was judged last.

    `judged_at`: milliseconds since 1970 (UTC).
    """

    tick: Tick
    judged_at: int


class SenderRead(NamedTuple):
    """A store that has sent data of all families of the rule, and what is used to read it.

    `first_day`: the UTC day of its first event; the latest one if there are several families.
    """

    store_id: str
    first_day: date
    moment: ViewsMoment
    state: JudgedPartition


class CheckedRule(NamedTuple):
    """The version in force, with the metrics that it reads."""

    version: RuleVersion
    metrics: VersionMetrics

    def closed(self, tick: Tick) -> KnownBy:
        """What is known of windows in a partition, and up to where they are closed."""
        return KnownBy.of(tick, self.version.rule, self.metrics)

    def wanted(self, store_id: str, span: WindowSpan) -> Iterator[ReadingWanted]:
        """The readings needed for windows of one local day."""
        for metric in self.metrics.all:
            yield from wanted_of(metric, store_id, span)
        if usual := usual_of(self.version.rule, store_id, span.start):
            yield usual


def of_partition(
    checked: CheckedRule, store_id: str, state: JudgedPartition, now: int
) -> StoreHealth | None:
    """Why nothing of the store's partition is judged at `now`; None: its windows decide."""
    # This also covers missing ticks: `judged_at` is the time of the last judged tick.
    if now - state.judged_at > _PATIENCE:
        return StoreHealth(store_id, "not_evaluated", state.judged_at)
    closed = checked.closed(state.tick).closed
    # If the pipeline keeps up, the last window that is over is closed, or is just about to close.
    delay = checked.version.rule.delay * 1000
    if closed < start_of_window(state.tick.at - delay) - WINDOW_MILLIS:
        return StoreHealth(store_id, "behind", closed or None)
    return None


def reasons_of_day(
    checked: CheckedRule, read: SenderRead, span: WindowSpan
) -> list[tuple[int, UnjudgedReason | None]]:
    """The start and the reason of each window of a day that was read, newest first.

    Windows that the rule does not look at are absent, and so are silent windows before the day
    after the store's first event.
    """
    (version, metrics), moment, store_id = checked, read.moment, read.store_id
    looked_at = watched_windows(version.rule, moment.days(store_id), span)
    begun = utc_span(read.first_day + _ONE_DAY).start
    cells = [moment.cells(metric, store_id, span) for metric in metrics.all]
    usual = moment.usual(usual_of(version.rule, store_id, span.start))
    known_by = checked.closed(read.state.tick)
    reasons: list[tuple[int, UnjudgedReason | None]] = []
    for first, *rest in reversed([*zip(*cells, strict=True)]):
        window = WindowCells(first, (*rest,))
        window = window._replace(usual=usual.get(window.start))
        reason = unjudged_reason(version.rule, metrics, window, known_by)
        # The first record says nothing about the hours before it arrived.
        is_before = reason == "no_data" and window.start < begun
        if window.start in looked_at and not is_before:
            reasons.append((window.start, reason))
    return reasons
