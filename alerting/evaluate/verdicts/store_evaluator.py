"""The evaluation of one store by one snapshot, and the ends of episodes that no fold makes.

Both return the alerts to publish, and update the memory. An episode ends without a fold when a
person resolves its alert, or its rule can no longer be evaluated. The messages are made of
transitions, and of the rows that were evaluated.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import structlog
from msgspec import structs

from alerting.alert.ids import WHOLE_STORE, Chain, window_text
from alerting.alert.published import PublishedAlert
from alerting.alert.resolution import AlertResolution
from alerting.episodes.affected_days import ChainDays, FoldedDays, refold
from alerting.episodes.alert_diff import EvaluationContext, Transition, diff_alerts
from alerting.episodes.fold import IDLE_STATE, Episode, FoldState
from alerting.episodes.verdict import RAISES
from alerting.evaluate.scope.calendar import StoreCalendarDays, WindowSpan, start_of_window
from alerting.evaluate.scope.rule_set import RuleSet, VersionedRule
from alerting.evaluate.scope.scope import CalendarLookup, RuleDays
from alerting.evaluate.snapshot.window_facts import DayWindow, cell_value, list_read_rows
from alerting.evaluate.state.chain_memory import ForcedEnd
from alerting.evaluate.state.memory import PartitionMemory
from alerting.evaluate.verdicts.verdicts import Verdicts
from alerting.rules.conditions import threshold_value
from alerting.rules.rule import version_at
from tally.alerts.baseline import ExactValue
from tally.alerts.message import (
    Alert,
    AlertBaseline,
    AlertWindow,
    Edge,
    EpisodeSpan,
    Evidence,
    Reason,
)
from tally.alerts.tick import Tick
from tally.time.instants import from_millis
from tally.time.windows import WINDOW_MILLIS


def alert_message(
    rule: VersionedRule, transition: Transition, window: DayWindow | None, tick: Tick
) -> Alert:
    """The message of one transition; `window`: the window that calls for it, as served now."""
    alert = transition.alert
    version = rule.version(alert.version).rule
    # An episode goes on across versions, so another version may evaluate its end.
    by = window.reading.rule if window and window.reading else version
    # A retraction because of an erasure must not publish the erased number again.
    shown_window = None if transition.reason == "erasure" else window
    value = alert_value(shown_window, alert.chain.subject, alert.edge)
    rows = list_read_rows(window.cells, tick) if window and window.cells else ()
    usual = shown_window.cells.baseline if shown_window and shown_window.cells else None
    stated = AlertBaseline(usual.snapshot, json_number(usual.mean), usual.days) if usual else None
    # A rule without `clear` ends where its condition does not hold.
    condition = (by.clear if alert.edge == "clear" else None) or by.condition
    return Alert(
        alert_id=alert.alert_id,
        rule_id=rule.rule_id,
        rule_version=alert.version,
        store_id=alert.chain.store_id,
        subject=alert.chain.subject,
        metric=version.metric or version.family or "",
        window=AlertWindow(window_text(alert.window), window_text(alert.window + WINDOW_MILLIS)),
        state=alert.state,
        value=value,
        # None if the value was compared with no number.
        threshold=None if condition is None else threshold_value(condition, value, usual),
        baseline=stated,
        severity=version.severity,
        raised_at=window_text(alert.raised_at),
        reason=transition.reason,
        edge=alert.edge,
        of=alert.of,
        occurrence=alert.occurrence,
        supersedes=alert.supersedes,
        late=alert.late,
        backfilled=False,
        episode=EpisodeSpan(
            window_text(alert.start),
            None if alert.ended is None else window_text(alert.ended),
            window_text(transition.evaluated_window),
        ),
        evidence=Evidence(tick.n, rows),
    )


def json_number(value: ExactValue) -> int | float:
    """The value as a JSON number: an integer if it is whole, else a float with 6 decimals.

    >>> json_number(Fraction(6, 2)), json_number(Fraction(1, 3))
    (3, 0.333333)
    """
    found = Fraction(value)
    return found.numerator if found.denominator == 1 else round(float(found), 6)


def alert_value(
    window: DayWindow | None, subject: str = WHOLE_STORE, edge: Edge = "raise"
) -> int | float | None:
    """The window's value in the metric's unit; None for silence, or if it may not be published.

    For a stock rule it is the lowest of the window, or the last for the end of an episode.
    """
    if window is None or window.cells is None or window.reading is None:
        return None
    cell, metric = window.cells.metric, window.reading.metrics.metric
    if cell.is_hidden:
        return None
    if metric.stock is None:
        value = cell_value(window.reading.rule, metric, cell.cell)
    else:
        reached = cell.shelves.levels(subject) if cell.shelves else None
        found = reached and (reached.lowest if edge == "raise" else reached.level)
        value = None if found is None else metric.stock.exactly(found)
    return None if value is None else json_number(value)


_NEVER = 1 << 62

log = structlog.get_logger()

# The reason by family and UTC day why numbers may have changed, if it is not late data.
Causes = Mapping[str, Mapping[date, Reason]]
# The messages of chain after chain, each list in the order of publishing.
AlertBatches = Iterator[list[Alert]]


class StoreEvaluator:
    """Evaluates a store rule by rule; `since`: its first evaluated window, ms since 1970 (UTC)."""

    def __init__(
        self,
        rules: RuleSet,
        memory: PartitionMemory,
        verdicts: Verdicts,
        days: StoreCalendarDays,
        since: int,
    ) -> None:
        self._rules, self._memory = rules, memory
        self._verdicts, self._days = verdicts, days
        self._starts = days.day_starts(WindowSpan(since, verdicts.end))
        before = memory.last_tick.at
        self._new_from = days.day(before).end if before else 0
        new = bisect_left(self._starts, self._new_from)
        # The day before the first new day had not ended at the last evaluation.
        self._first_new = max(0, new - 1) if new < len(self._starts) else new
        # The starts of the days that were folded, by rule id.
        self._folded_days: dict[str, set[int]] = {}

    def evaluate(self, named: RuleDays, causes: Causes) -> AlertBatches:
        """The messages of the store, chain by chain, in the order of publishing.

        The memory has the messages of a chain as published when they are returned. `named`: days by
        rule.
        """
        for rule in self._rules.rules:
            days = {*named.get(rule.rule_id, ())}
            # Also the days on which a rule that this rule waits for was folded again.
            for other in self._rules.find_dependencies(rule, rule.unless):
                days |= self._folded_days.get(other.rule_id, set())
            if days or rule.rule_id in named:
                yield from self._evaluate_rule(rule, days, causes)

    def _evaluate_rule(self, rule: VersionedRule, days: set[int], causes: Causes) -> AlertBatches:
        store_id = self._days.store.store_id
        new = self._starts[max(self._first_new, self._first_day(rule)) :]
        looked_at = {*days, *new}
        first = min(days, default=_NEVER)
        live = self._memory.chains.subjects(rule.rule_id, store_id, first)
        for chain in self._verdicts.list_chains(rule, store_id, *sorted(days)):
            # Most chains have no published alert, and no alert is called for.
            if chain.subject in live or not self._stays_idle(rule, chain, looked_at):
                yield self._evaluate_chain(rule, chain, days, causes)

    def _stays_idle(self, rule: VersionedRule, chain: Chain, days: Iterable[int]) -> bool:
        """Whether a chain at rest is still at rest after the days are folded."""
        # A fold at rest stays at rest until a window raises.
        return not any(
            RAISES in verdict_range.verdicts
            for day in days
            if self._verdicts.may_raise(rule, chain, day)
            for verdict_range in self._verdicts.ranges(rule, chain, day)
        )

    def _evaluate_chain(
        self, rule: VersionedRule, chain: Chain, days: set[int], causes: Causes
    ) -> list[Alert]:
        end, chains = self._verdicts.end, self._memory.chains
        starts = self._starts[self._first_day(rule) :] if rule.since < end else []
        if not starts:
            return []
        line = ChainDays([*starts, end], chains.fold_line(chain), days, self._new_from)

        def alerts_since(instant: int) -> Iterable[PublishedAlert]:
            return chains.alerts_since(chain, instant).values()

        refolding = refold(line, alerts_since, partial(self._verdicts.ranges, rule, chain))
        # The memory is updated only at the end, because a read for a message may fail before.
        changed: dict[str, PublishedAlert] = {}
        found: list[Alert] = []
        for folded_days in refolding.spans:
            before = (chains.alerts_since(chain, folded_days.since) | changed).values()
            for transition in self._transitions(rule, chain, folded_days, before, causes):
                changed[transition.alert.alert_id] = transition.alert
                window = self._verdicts.find_window(rule, chain, transition.evaluated_window)
                found.append(alert_message(rule, transition, window, self._memory.tick))
        for alert in changed.values():
            chains.store_alert(alert)
        folded = self._folded_days.setdefault(rule.rule_id, set())
        for folded_days, states in zip(refolding.spans, refolding.states, strict=True):
            chains.set_days(chain, states, folded_days.until if folded_days.until < end else None)
            folded.update(states)
        return found

    def _transitions(
        self,
        rule: VersionedRule,
        chain: Chain,
        days: FoldedDays,
        alerts: Collection[PublishedAlert],
        causes: Causes,
    ) -> Iterator[Transition]:
        if not alerts and not days.episodes:
            return
        for transition in diff_alerts(chain, days, alerts, self._basis(rule, alerts, causes)):
            reason = transition.reason
            if reason is None and transition.alert.edge == "clear":
                reason = self._verdicts.end_reason(rule, chain, transition.evaluated_window)
            yield structs.replace(transition, reason=reason)

    def _first_day(self, rule: VersionedRule) -> int:
        """The number of the day that holds the rule's first window, at least 0."""
        return max(0, bisect_right(self._starts, rule.since) - 1)

    def _basis(
        self, rule: VersionedRule, alerts: Iterable[PublishedAlert], causes: Causes
    ) -> EvaluationContext:
        at = self._memory.tick.at
        newest = (version_at(rule.versions, at) or rule.versions[0]).rule
        reasons: dict[date, Reason] = {}
        for family in rule.families:
            reasons |= causes.get(family, {})
        days = {alert.window: from_millis(alert.window).date() for alert in alerts}
        return EvaluationContext(
            at=at,
            late_after=newest.delay + newest.late_after,
            retraction_reasons={
                window: reasons[day] for window, day in days.items() if day in reasons
            },
        )


class ForcedWindow(NamedTuple):
    """A window with which the episode of a raise ends; its start in ms since 1970 (UTC)."""

    alert: PublishedAlert
    window: int


def force_ends(memory: PartitionMemory, rules: RuleSet) -> list[ForcedWindow]:
    """Find the episodes that have to end now, and store their last windows as forced ends.

    Rules are checked once a quarter hour, resolutions as soon as they have arrived.
    """
    resolved = (_force_resolved_end(memory, resolution) for resolution in memory.resolutions)
    found = [end for end in resolved if end is not None]
    now = start_of_window(memory.tick.at)
    if start_of_window(memory.last_tick.at) < now:
        for raised in memory.chains.open_raises():
            rule = rules.all.get(raised.chain.rule_id)
            if rule is not None and rule.is_unevaluable(now):
                found.append(_force_end(memory, raised, ForcedEnd("rule")))
    return found


def add_forced_days(
    named: Iterable[tuple[str, RuleDays]], forced: Iterable[ForcedWindow], days_of: CalendarLookup
) -> Iterator[tuple[str, RuleDays]]:
    """The named days of each store, with the days of the forced ends added."""
    added: dict[str, dict[str, set[int]]] = {}
    for raised, window in forced:
        chain, days = raised.chain, days_of(raised.chain.store_id)
        starts = added.setdefault(chain.store_id, {}).setdefault(chain.rule_id, set())
        starts.add(days.day(window).start)
    for store_id, rule_days in named:
        merged = {**rule_days}
        for rule_id, starts in added.pop(store_id, {}).items():
            merged[rule_id] = {*rule_days.get(rule_id, ()), *starts}
        yield store_id, merged
    yield from added.items()


def end_unevaluable_rules(
    memory: PartitionMemory, rules: RuleSet, forced: Iterable[ForcedWindow]
) -> Iterator[list[Alert]]:
    """The end messages of rules without a version that can be evaluated; no fold makes them."""
    evaluated_ids = {rule.rule_id for rule in rules.rules}
    for raised, window in forced:
        rule = rules.all.get(raised.chain.rule_id)
        if rule is not None and rule.rule_id not in evaluated_ids:
            yield [*_end_alerts(memory, rule, raised, window)]


def _force_resolved_end(
    memory: PartitionMemory, resolution: AlertResolution
) -> ForcedWindow | None:
    raised = memory.chains.find(resolution.alert_id)
    if raised is None or raised not in memory.chains.open_raises():
        log.info("nothing to resolve", alert_id=resolution.alert_id, store=resolution.store_id)
        return None
    for window, end in memory.chains.find_forced_ends(raised.chain).items():
        if window > raised.window and end.reason == "resolved":
            # A resolution that is delivered again changes nothing.
            return ForcedWindow(raised, window)
    return _force_end(memory, raised, ForcedEnd("resolved", resolution.by, resolution.because))


def _force_end(memory: PartitionMemory, raised: PublishedAlert, end: ForcedEnd) -> ForcedWindow:
    """End the episode with the current window, or with the one after the raise if that is later."""
    window = max(start_of_window(memory.tick.at), raised.window + WINDOW_MILLIS)
    memory.chains.force_end(raised.chain, window, end)
    return ForcedWindow(raised, window)


def _end_alerts(
    memory: PartitionMemory, rule: VersionedRule, raised: PublishedAlert, window: int
) -> Iterator[Alert]:
    chain = raised.chain
    episode = Episode(raised.start, raised.window, raised.version)
    ended, state = structs.replace(episode, ended=window), FoldState(open=episode)
    days = FoldedDays(window, window + WINDOW_MILLIS, state, (ended,), frozenset((window,)))
    known = memory.chains.alerts_since(chain, days.since).values()
    newest = rule.versions[-1].rule
    basis = EvaluationContext(at=memory.tick.at, late_after=newest.delay + newest.late_after)
    for transition in diff_alerts(chain, days, known, basis):
        memory.chains.store_alert(transition.alert)
        yield alert_message(rule, structs.replace(transition, reason="rule"), None, memory.tick)
    memory.chains.set_days(chain, {window: IDLE_STATE}, None)
