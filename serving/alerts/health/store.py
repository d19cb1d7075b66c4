"""One store and one rule: the windows that are closed, from the newest back, and what they say."""

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
# A rule that the evaluator has not come to for so long is not judged at all.
_PATIENCE = WINDOW_MILLIS


class StoreHealth(NamedTuple):
    """Whether a rule is judged in a store. `reason`: None if it is.

    `since`: when that began, ms since 1970 (UTC); None where it is judged, or always was so.
    `is_earlier`: it may have begun earlier, for no more days were looked at.
    """

    store_id: str
    reason: UnjudgedReason | None = None
    since: int | None = None
    is_earlier: bool = False


class JudgedPartition(NamedTuple):
    """What the ticks of a partition say, and when the one came that was judged last.

    Milliseconds since 1970 (UTC).
    """

    tick: Tick
    judged_at: int


class SenderRead(NamedTuple):
    """A store that has sent of all families: since which UTC day, and by what it is read."""

    store_id: str
    first_day: date
    moment: ViewsMoment
    state: JudgedPartition


class CheckedRule(NamedTuple):
    """The version that is in force, with what it reads."""

    version: RuleVersion
    metrics: VersionMetrics

    def closed(self, tick: Tick) -> KnownBy:
        """By what the windows are known in a partition, and up to where they are closed."""
        return KnownBy.of(tick, self.version.rule, self.metrics)

    def wanted(self, store_id: str, span: WindowSpan) -> Iterator[ReadingWanted]:
        """What has to be read of windows of one local day."""
        for metric in self.metrics.all:
            yield from wanted_of(metric, store_id, span)
        if usual := usual_of(self.version.rule, store_id, span.start):
            yield usual


def of_partition(
    checked: CheckedRule, store_id: str, state: JudgedPartition, now: int
) -> StoreHealth | None:
    """Why nothing of the store's partition is judged at `now`; None: its windows say it."""
    # Also where no ticks come: a tick that nobody has judged is not the last one.
    if now - state.judged_at > _PATIENCE:
        return StoreHealth(store_id, "not_evaluated", state.judged_at)
    closed = checked.closed(state.tick).closed
    # Of a pipeline that keeps up the last window that is over is closed, or closes right now.
    delay = checked.version.rule.delay * 1000
    if closed < start_of_window(state.tick.at - delay) - WINDOW_MILLIS:
        return StoreHealth(store_id, "behind", closed or None)
    return None


def reasons_of_day(
    checked: CheckedRule, read: SenderRead, span: WindowSpan
) -> list[tuple[int, UnjudgedReason | None]]:
    """Start and reason of each window of a day that was read, the newest first.

    Windows are left out that the rule does not look at, and silent ones before the day after the
    store's first event.
    """
    (version, metrics), moment, store_id = checked, read.moment, read.store_id
    looked_at = watched_windows(version.rule, moment.days(store_id), span)
    begun = utc_span(read.first_day + _ONE_DAY).start
    cells = [moment.cells(metric, store_id, span) for metric in metrics.all]
    usual = moment.usual(usual_of(version.rule, store_id, span.start))
    known_by = checked.closed(read.state.tick)
    reasons: list[tuple[int, UnjudgedReason | None]] = []
    for first, *rest in reversed([*zip(*cells, strict=True)]):
        found = WindowCells(first, (*rest,))
        found = found._replace(usual=usual.get(found.start))
        reason = unjudged_reason(version.rule, metrics, found, known_by)
        # The first record says nothing of the hours before it came.
        is_before = reason == "no_data" and found.start < begun
        if found.start in looked_at and not is_before:
            reasons.append((found.start, reason))
    return reasons
