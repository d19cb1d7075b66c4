"""Comparison of the alerts that a rule calls for on some windows with the published alerts.

Both belong to one chain. Windows that are not covered are not compared, because their published
alerts depend on the arrival times of records.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Literal

from msgspec import Struct

from alerting.alert.published import PublishedAlert
from alerting.episodes.alert_diff import match_alerts
from alerting.episodes.fold import Episode
from tally.alerts.message import Edge

# not_told: an alert is called for, and none stands. not_confirmed: an alert stands, but is still
# provisional. not_called_for: an alert stands, and nothing calls for it.
DifferenceKind = Literal["not_told", "not_confirmed", "not_called_for"]


class ComparisonSpan(Struct, frozen=True):
    """The requested windows of a chain, [start, end) in milliseconds since 1970 (UTC).

    `episodes`: those of these windows and of the days around them. `covered`: starts of the windows
    that are covered, and before which all windows of the same day are covered too.
    `is_cut`: whether windows have begun after those days, in which an episode that is open here may
    have ended.
    """

    start: int
    end: int
    episodes: tuple[Episode, ...]
    covered: frozenset[int]
    is_cut: bool = False

    @property
    def episodes_in_span(self) -> tuple[Episode, ...]:
        """The episodes that are open in a window of the span and were raised before its end."""
        return tuple(
            episode
            for episode in self.episodes
            if episode.raised < self.end and (episode.ended is None or episode.ended > self.start)
        )


class AlertDifference(Struct, frozen=True, kw_only=True):
    """One difference between published and wanted alerts.

    `window`: start of the wanted alert's window, else of the published one's, milliseconds since
    1970 (UTC). `alert_id`: None where no alert stands.
    """

    kind: DifferenceKind
    edge: Edge
    window: int
    alert_id: str | None = None


class AlertComparison(Struct, frozen=True):
    """The number of compared raises and ends, each counted once, and their differences.

    `left_out`: the number of published or wanted alerts in the span whose windows are not covered.
    """

    compared: int
    left_out: int
    differences: tuple[AlertDifference, ...]


def compare_alerts(span: ComparisonSpan, published: Iterable[PublishedAlert]) -> AlertComparison:
    """The comparison of the span's published alerts with the wanted ones, one to one.

    In:  `published`: every alert of the chain whose window may lie in one of the episodes.
    Out: an alert is matched to the episode that contains its window, as the evaluator does it.
    """
    # A retracted alert counts as if it had never been published.
    standing = [alert for alert in published if alert.is_unretracted]
    found = [*_compare_span(span, standing)]
    differences = tuple(finding for finding in found if isinstance(finding, AlertDifference))
    left_out = sum(finding == "left out" for finding in found)
    return AlertComparison(len(found) - left_out, left_out, differences)


# The result for one raise or end: its difference, equality, or not comparable.
_SpanFinding = AlertDifference | Literal["equal", "left out"]


def _compare_span(
    span: ComparisonSpan, standing: Sequence[PublishedAlert]
) -> Iterator[_SpanFinding]:
    ends = _group_ends(standing)
    raises = [candidate for candidate in standing if candidate.edge == "raise"]
    matching = match_alerts(raises, span.episodes)
    for episode, raised in matching.pairs:
        if _is_in(span, episode.raised):
            yield _compare_expected(span, "raise", episode, raised)
        own = [] if raised is None else ends.pop(raised.alert_id, [])
        if episode.ended is not None:
            # A raise has one end at a time, so a second end is unwanted.
            end, own = (own[0], own[1:]) if own else (None, [])
            if _is_in(span, episode.ended):
                yield _compare_expected(span, "clear", episode, end)
        # Alerts of windows after the span do not belong to it.
        for end_left in own:
            if _is_in(span, _comparison_window(end_left)):
                goes_on = span.is_cut and episode.ended is None
                yield (
                    "left out"
                    if goes_on
                    else _compare_unexpected(span, end_left, _comparison_window(end_left))
                )
    for unmatched in (*matching.merged, *matching.unmatched):
        # An end is wanted only if its raise is, so the window of the raise decides for both.
        for alert in (unmatched, *ends.pop(unmatched.alert_id, [])):
            if _is_in(span, _comparison_window(alert)):
                yield _compare_unexpected(span, alert, unmatched.window)
    for orphan in chain.from_iterable(ends.values()):
        if _is_in(span, _comparison_window(orphan)):
            yield _compare_unexpected(span, orphan, _comparison_window(orphan))


def _group_ends(standing: Iterable[PublishedAlert]) -> dict[str | None, list[PublishedAlert]]:
    """The ends of each raise, earliest first."""
    found: dict[str | None, list[PublishedAlert]] = defaultdict(list)
    for alert in sorted(standing, key=attrgetter("window", "occurrence", "alert_id")):
        if alert.edge == "clear":
            found[alert.of].append(alert)
    return found


def _comparison_window(alert: PublishedAlert) -> int:
    """The start of the window to which an alert is counted.

    For an end it is the window with which it was confirmed. Its own window may lie many days later,
    if it was published before those days were rebuilt.
    """
    is_known_end = alert.edge == "clear" and alert.state == "confirmed"
    return alert.ended if is_known_end and alert.ended is not None else alert.window


def _is_in(span: ComparisonSpan, window: int) -> bool:
    return span.start <= window < span.end


def _compare_expected(
    span: ComparisonSpan, edge: Edge, episode: Episode, alert: PublishedAlert | None
) -> _SpanFinding:
    window = episode.raised if edge == "raise" or episode.ended is None else episode.ended
    if window not in span.covered:
        return "left out"
    if alert is None:
        return AlertDifference(kind="not_told", edge=edge, window=window)
    # A provisional alert must be confirmed only where its own window is covered too.
    is_here = alert.window in span.covered
    if alert.state == "confirmed" and (is_here or _names_episode(alert, episode)):
        return "equal"
    if not is_here:
        return "left out"
    return AlertDifference(kind="not_confirmed", edge=edge, window=window, alert_id=alert.alert_id)


def _names_episode(alert: PublishedAlert, episode: Episode) -> bool:
    """Whether the alert's last message names the episode, regardless of the alert's own window."""
    # An episode that is open at the end of the days may have ended later, and another one begun.
    is_same_end = alert.edge == "raise" or alert.ended == episode.ended
    return alert.start == episode.start and is_same_end


def _compare_unexpected(
    span: ComparisonSpan, alert: PublishedAlert, deciding_window: int
) -> _SpanFinding:
    if deciding_window not in span.covered:
        return "left out"
    return AlertDifference(
        kind="not_called_for", edge=alert.edge, window=alert.window, alert_id=alert.alert_id
    )
