"""The alert messages to publish: the difference between the wanted alerts and the published ones.

The comparison is of levels, not of edges, so evaluating twice publishes nothing the second time,
regardless of the trigger.

| from                   | when                               | to                              |
|------------------------|------------------------------------|---------------------------------|
| nothing                | wanted, not covered                | provisional                     |
| nothing                | wanted, covered                    | confirmed                       |
| provisional            | wanted, covered                    | confirmed                       |
| provisional, confirmed | not wanted, covered                | retracted                       |
| provisional, confirmed | not wanted, not covered            | as it was                       |
| retracted              | wanted again                       | another alert, `occurrence` 2   |

A window is covered once a generation serves it, and nothing newer was read instead. Only then is an
alert confirmed or retracted, so the layers never retract each other's alerts in turn.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field, structs

from alerting.alert.ids import Chain, alert_id
from alerting.alert.published import PublishedAlert, window_order
from alerting.episodes.affected_days import FoldedDays
from alerting.episodes.fold import Episode
from tally.alerts.message import Edge, Reason
from tally.time.windows import WINDOW_MILLIS


class Matching(Struct, frozen=True):
    """Each episode with its alert, or None where no alert was published.

    `merged`: alerts in an episode that already has another alert, after two episodes became one.
    `unmatched`: alerts that lie in no episode.
    """

    pairs: tuple[tuple[Episode, PublishedAlert | None], ...]
    merged: tuple[PublishedAlert, ...]
    unmatched: tuple[PublishedAlert, ...]


def match_alerts(raises: Iterable[PublishedAlert], episodes: Sequence[Episode]) -> Matching:
    """The standing raises of one chain, matched to the episodes that contain their windows.

    If several raises lie in one episode, the earliest is matched. Episodes do not overlap, so each
    alert lies in at most one of them, and the order of either argument makes no difference.
    """
    left = sorted(raises, key=window_order)
    pairs: list[tuple[Episode, PublishedAlert | None]] = []
    merged: list[PublishedAlert] = []
    for episode in sorted(episodes, key=lambda span: span.start):
        # The earliest stays, because its id is the one that subscribers received first.
        inside = [alert for alert in left if episode.contains(alert.window)]
        pairs.append((episode, inside[0] if inside else None))
        merged += inside[1:]
        left = [alert for alert in left if alert not in inside]
    return Matching(tuple(pairs), tuple(merged), tuple(left))


class EvaluationContext(Struct, frozen=True, kw_only=True):
    """The time of evaluation, and the reasons of retractions.

    `at`: the tick's instant, milliseconds since 1970 (UTC). `late_after`: seconds after a window's
    end from which on a first message is late, the sum of the rule's `delay` and `late_after`.
    `retraction_reasons`: the reason by the start of the window; a window that is absent had late
    data.
    """

    at: int
    late_after: int
    retraction_reasons: Mapping[int, Reason] = field(default_factory=dict)


class Transition(Struct, frozen=True):
    """One message: the alert in its new state, and the reason of a retraction.

    `evaluated_window`: start of the window that calls for the alert now, milliseconds since 1970
    (UTC). After late data it may differ from the window for which the alert was first published.
    """

    alert: PublishedAlert
    evaluated_window: int
    reason: Reason | None = None


def diff_alerts(
    chain: Chain, days: FoldedDays, published: Iterable[PublishedAlert], basis: EvaluationContext
) -> list[Transition]:
    """The messages to publish for a chain after some of its days were folded, in order.

    In:  `published`: every alert of the chain that its days may hold, also retracted ones.
    Out: each transition is a message and a record of the state; an end never precedes its raise.

    Where a rule is retired, or leaves the store, its verdict is ENDS, which ends the episode.
    """
    return _AlertDiff(chain, days, sorted(published, key=window_order), basis).compute()


class _AlertDiff:
    """One chain, some of its days, and the alerts that were published for them before."""

    def __init__(
        self,
        chain: Chain,
        days: FoldedDays,
        published: Sequence[PublishedAlert],
        basis: EvaluationContext,
    ) -> None:
        self.chain, self.days, self.published, self.context = chain, days, published, basis
        standing = [alert for alert in published if alert.is_unretracted]
        self.raises = {alert.alert_id: alert for alert in standing if alert.edge == "raise"}
        # Ends by their raise, because a raise has one standing end at a time.
        self.ends = {alert.of: alert for alert in standing if alert.edge == "clear"}

    def compute(self) -> list[Transition]:
        """The messages of the chain, as diff_alerts() of this module returns them."""
        here = (alert for alert in self.raises.values() if self._is_in_days(alert.window))
        matching = match_alerts(here, self.days.episodes)
        raised: list[Transition] = []
        ended: list[Transition] = []
        for episode, before in matching.pairs:
            if before is None:
                after = self._first_message(episode, episode.raised)
            else:
                after = self._confirm(before, episode, episode.raised)
            raised += [] if after is before else [Transition(after, episode.raised)]
            ended += self._end_transitions(episode, after)
        return [*raised, *self._retract_raises(matching), *self._retract_orphans(), *ended]

    def _is_in_days(self, window: int) -> bool:
        return self.days.since <= window < self.days.until

    def _end_transitions(self, episode: Episode, raised: PublishedAlert) -> list[Transition]:
        before = self.ends.get(raised.alert_id)
        if episode.ended is None:
            # The episode may still have ended after these days, which their windows cannot show.
            return [] if before is None else self._retract(before)
        if before is None:
            after = self._first_message(episode, episode.ended, raised)
        else:
            after = self._confirm(before, episode, episode.ended)
        return [] if after is before else [Transition(after, episode.ended)]

    def _retract_raises(self, matching: Matching) -> list[Transition]:
        """Retractions of raises without an episode, each together with its end."""
        found: list[Transition] = []
        for alert in (*matching.merged, *matching.unmatched):
            retractions = self._retract(alert, "merged" if alert in matching.merged else None)
            end = self.ends.get(alert.alert_id)
            if retractions and end is not None:
                # The end is retracted at once, even if its own window is not covered.
                retractions.append(_retraction(end, retractions[0].reason))
            found += retractions
        return found

    def _retract_orphans(self) -> list[Transition]:
        """Retractions of ends whose raise does not stand, for any reason."""
        left = (end for raise_id, end in self.ends.items() if raise_id not in self.raises)
        return [message for end in left for message in self._retract(end)]

    def _first_message(
        self, episode: Episode, window: int, raised: PublishedAlert | None = None
    ) -> PublishedAlert:
        edge: Edge = "raise" if raised is None else "clear"
        version = episode.version if raised is None else raised.version
        # Ends of any raise count, because the raise is no part of an end's id. Retracted alerts
        # count too, because a retracted id is never published again.
        of_edge = (alert for alert in self.published if alert.edge == edge)
        before = [alert for alert in of_edge if (alert.version, alert.window) == (version, window)]
        occurrence = before[-1].occurrence + 1 if before else 1
        due = window + WINDOW_MILLIS + self.context.late_after * 1000
        return PublishedAlert(
            alert_id=alert_id(self.chain, version, window, edge, occurrence),
            chain=self.chain,
            version=version,
            edge=edge,
            window=window,
            state="confirmed" if window in self.days.covered else "provisional",
            raised_at=self.context.at,
            start=episode.start,
            ended=episode.ended,
            occurrence=occurrence,
            of=None if raised is None else raised.alert_id,
            supersedes=before[-1].alert_id if before else None,
            late=self.context.at > due,
        )

    def _confirm(self, alert: PublishedAlert, episode: Episode, window: int) -> PublishedAlert:
        """The alert, confirmed if its own window and its current window are both covered."""
        # A run may cross midnight, and the days of both its ends are covered one by one.
        if alert.state == "confirmed" or not {alert.window, window} <= self.days.covered:
            return alert
        end = self.ends.get(alert.alert_id)
        known_end = None if end is None or self._is_in_days(end.window) else end.window
        ended = known_end if episode.ended is None else episode.ended
        return structs.replace(alert, state="confirmed", start=episode.start, ended=ended)

    def _retract(self, alert: PublishedAlert, reason: Reason | None = None) -> list[Transition]:
        reason = reason or self.context.retraction_reasons.get(alert.window, "late_data")
        return [_retraction(alert, reason)] if alert.window in self.days.covered else []


def _retraction(alert: PublishedAlert, reason: Reason | None) -> Transition:
    return Transition(structs.replace(alert, state="retracted"), alert.window, reason)
