"""Ends of episodes that no number calls for.

A person resolves an alert, a rule can no longer be evaluated, or it no longer evaluates the
subject.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import structlog
from msgspec import structs

from alerting.alert.ids import WHOLE_STORE, subject_text
from alerting.alert.published import PublishedAlert
from alerting.alert.resolution import AlertResolution
from alerting.episodes.affected_days import FoldedDays
from alerting.episodes.alert_diff import EvaluationContext, diff_alerts
from alerting.episodes.fold import IDLE_STATE, Episode, FoldState, VerdictRange
from alerting.episodes.verdict import ENDS, RESOLVES
from alerting.evaluate.scope.rule_set import RuleSet, VersionedRule
from alerting.evaluate.scope.scope import CalendarLookup, RuleDays
from alerting.evaluate.snapshot.calendar import StoreCalendarDays, start_of_window
from alerting.evaluate.snapshot.rule_readings import applies_to
from alerting.evaluate.state.chain_memory import ForcedEnd
from alerting.evaluate.state.memory import PartitionMemory
from alerting.evaluate.verdicts.messages import alert_message
from alerting.rules.rule import RuleVersion
from tally.alerts.message import Alert, Reason
from tally.time.windows import WINDOW_MILLIS

log = structlog.get_logger()


class ForcedWindow(NamedTuple):
    """A window with which the episode of a raise ends; its start in ms since 1970 (UTC)."""

    alert: PublishedAlert
    window: int


ForcedWindows = Iterable[ForcedWindow]


def force_ends(memory: PartitionMemory, rules: RuleSet) -> list[ForcedWindow]:
    """Find the episodes that have to end now, and store their last windows as forced ends.

    Rules are checked once a quarter hour, resolutions as soon as they have arrived.
    """
    found = [
        end for resolution in memory.resolutions if (end := _force_resolved_end(memory, resolution))
    ]
    now = start_of_window(memory.tick.at)
    if start_of_window(memory.last_tick.at) < now:
        raises = memory.chains.open_raises()
        for raised in raises:
            rule = rules.all.get(raised.chain.rule_id)
            if rule is not None and _is_unevaluable(rule, now):
                found.append(ForcedWindow(raised, max(now, raised.window + WINDOW_MILLIS)))
                memory.chains.force_end(raised.chain, found[-1].window, ForcedEnd("rule"))
    return found


def add_forced_days(
    named: Iterable[tuple[str, RuleDays]], forced: ForcedWindows, days_of: CalendarLookup
) -> Iterator[tuple[str, RuleDays]]:
    """The named days of each store, with the days of the forced ends added."""
    of_stores: dict[str, list[ForcedWindow]] = defaultdict(list)
    for end in forced:
        of_stores[end.alert.chain.store_id].append(end)
    for store_id, days in named:
        yield store_id, _add_days(days, of_stores.pop(store_id, ()), days_of)
    for store_id, ends in of_stores.items():
        yield store_id, _add_days({}, ends, days_of)


def end_unevaluable_rules(
    memory: PartitionMemory, rules: RuleSet, forced: ForcedWindows
) -> Iterator[list[Alert]]:
    """The end messages of rules without a version that can be evaluated; no fold makes them."""
    evaluated_ids = {rule.rule_id for rule in rules.rules}
    for raised, window in forced:
        rule = rules.all.get(raised.chain.rule_id)
        if rule is not None and rule.rule_id not in evaluated_ids:
            yield [*_end_alerts(memory, rule, raised, window)]


def _add_days(named: RuleDays, forced: ForcedWindows, days_of: CalendarLookup) -> RuleDays:
    found = {**named}
    for raised, window in forced:
        rule_id, days = raised.chain.rule_id, days_of(raised.chain.store_id)
        start = days.day(window).start
        found[rule_id] = {*found.get(rule_id, ()), start}
    return found


def _force_resolved_end(
    memory: PartitionMemory, resolution: AlertResolution
) -> ForcedWindow | None:
    raised = memory.chains.find(resolution.alert_id)
    if raised is None or raised not in memory.chains.open_raises():
        log.info("nothing to resolve", alert_id=resolution.alert_id, store=resolution.store_id)
        return None
    ends = memory.chains.find_forced_ends(raised.chain).items()
    known = [window for window, end in ends if window > raised.window and end.reason == "resolved"]
    # A resolution that is delivered again changes nothing.
    window = known[0] if known else _resolution_window(memory, raised)
    if not known:
        memory.chains.force_end(
            raised.chain, window, ForcedEnd("resolved", resolution.by, resolution.because)
        )
    return ForcedWindow(raised, window)


def _resolution_window(memory: PartitionMemory, raised: PublishedAlert) -> int:
    """The start of the current window, or of the one after the raise if that is later.

    In milliseconds since 1970 (UTC).
    """
    return max(start_of_window(memory.tick.at), raised.window + WINDOW_MILLIS)


def _is_unevaluable(rule: VersionedRule, window: int) -> bool:
    """Whether the version in force is not retired and still cannot be evaluated."""
    return not rule.can_evaluate(window) and not rule.is_retired(window)


def _end_alerts(
    memory: PartitionMemory, rule: VersionedRule, raised: PublishedAlert, window: int
) -> Iterator[Alert]:
    chain = raised.chain
    episode = Episode(raised.start, raised.window, raised.version)
    days = FoldedDays(
        window,
        window + WINDOW_MILLIS,
        FoldState(open=episode),
        (structs.replace(episode, ended=window),),
        frozenset((window,)),
    )
    known = memory.chains.alerts_since(chain, days.since).values()
    newest = rule.versions[-1].rule
    basis = EvaluationContext(at=memory.tick.at, late_after=newest.delay + newest.late_after)
    for transition in diff_alerts(chain, days, known, basis):
        memory.chains.store_alert(transition.alert)
        yield alert_message(rule, structs.replace(transition, reason="rule"), None, memory.tick)
    memory.chains.set_days(chain, {window: IDLE_STATE}, None)


def lapse_reason(
    rule: VersionedRule,
    version: RuleVersion | None,
    days: StoreCalendarDays,
    place: tuple[str, int],
) -> Reason | None:
    """Why the rule no longer evaluates the subject; None if it still does, or never did.

    `version`: the version that evaluates the window; `place`: the subject, and the window's start
    in milliseconds since 1970 (UTC).
    """
    subject, window = place
    if version is None:
        return "rule" if rule.is_retired(window) else _removal_reason(days, subject, window)
    is_of_articles = version.rule.subject != "none"
    if is_of_articles == (subject == WHOLE_STORE):
        return "rule"
    # The local date is computed only for the few rules that need it.
    if version.rule.stores != "all":
        day = days.date(window)
        if not applies_to(version.rule, days.store, day):
            return "rule"
    return _removal_reason(days, subject, window)


def apply_forced_ends(verdict_range: VerdictRange, forced: Mapping[int, ForcedEnd]) -> bytes:
    """The verdicts of the range with the forced ends put in.

    `forced`: forced ends by the window's start, milliseconds since 1970 (UTC).
    """
    verdicts = bytearray(verdict_range.verdicts)
    for window, end in forced.items():
        place = (window - verdict_range.start) // WINDOW_MILLIS
        if 0 <= place < len(verdicts):
            verdicts[place] = (RESOLVES if end.reason == "resolved" else ENDS)[0]
    return bytes(verdicts)


def _removal_reason(days: StoreCalendarDays, subject: str, window: int) -> Reason | None:
    """The reason if the stores file says that the store is closed or the article delisted."""
    entry = days.store.entry
    if entry.closed is not None and days.date(window) >= entry.closed:
        return "closed"
    if not entry.delisted or subject == WHOLE_STORE:
        return None
    by_subject = {subject_text("item", item): day for item, day in entry.delisted.items()}
    delisted = by_subject.get(subject)
    return "delisted" if delisted is not None and days.date(window) >= delisted else None
