"""Whether one rule is evaluated in one store: its closed windows, from the newest back."""

from datetime import date, timedelta
from typing import Literal, NamedTuple, TypeAlias

from alerting.evaluate.scope.calendar import (
    WindowSpan,
    start_of_window,
    utc_span,
    windows_in_schedule,
)
from alerting.evaluate.scope.rule_set import VersionMetrics
from alerting.evaluate.snapshot.snapshot_reader import SnapshotReader
from alerting.evaluate.snapshot.window_facts import EvaluationTick, WindowCells, build_facts
from alerting.rules.rule import AgainstBaseline, Rule, RuleVersion
from tally.alerts.tick import Tick
from tally.time.windows import WINDOW_MILLIS

# A rule that the evaluator has not processed for this long counts as not evaluated at all.
_MAX_EVALUATION_LAG = WINDOW_MILLIS


# Reasons of a rule, a partition, a store and a window, in this order; the first that applies wins.
UnevaluatedReason: TypeAlias = Literal[
    "catalogue",
    "not_evaluated",
    "behind",
    "never_sent",
    "withheld",
    "coverage",
    "definition",
    "not_counted",
    "no_data",
    "no_baseline",
]
# The texts for people; docs/alerts.md says what to do about each reason.
REASON_TEXTS: dict[UnevaluatedReason, str] = {
    "catalogue": "its metric or family does not exist, or its kind is not judged",
    "not_evaluated": "the evaluator of the store's partition judges nothing",
    "behind": "the pipeline is behind: no tick says that everything has been read",
    "never_sent": "the store has never sent anything of one of the families that it reads",
    "withheld": "the number is withheld, for it is of few people",
    "coverage": "sensors were not there for enough of the quarter hour",
    "definition": "the speed layer does not read by the definition in force yet",
    "not_counted": "no article of the store has been counted",
    "no_data": "nothing has come, and no generation covers the quarter hour",
    "no_baseline": "it is not known what is usual",
}


def find_reason(
    rule: Rule, metrics: VersionMetrics, cells: WindowCells, by: EvaluationTick
) -> UnevaluatedReason | None:
    """Why the rule cannot evaluate the closed window; None if it is evaluated.

    A window below the rule's `minimum` counts as evaluated: the rule itself excludes it, and every
    night would be such a window. The exclusions by `within` and `unless` are not considered.
    """
    facts = build_facts(rule, metrics, cells, by, is_exempt=False)
    if not facts.is_known:
        return _unknown_reason(rule, cells)
    if metrics.metric.stock is not None:
        shelves = cells.metric.shelves
        return None if shelves and shelves.is_counted else "not_counted"
    if rule.kind == "silence":
        return None
    if facts.value is None and facts.phase != "covered" and rule.on_silence == "hold":
        return "no_data"
    if isinstance(rule.condition, AgainstBaseline) and cells.baseline is None:
        return "no_baseline"
    return None


def _unknown_reason(rule: Rule, cells: WindowCells) -> UnevaluatedReason:
    # As in the evaluator: a silence rule considers only the events of its family.
    read = (cells.metric,) if rule.kind == "silence" else cells.own
    if any(cell.is_hidden for cell in read):
        return "withheld"
    cell = cells.metric.cell
    is_seen = rule.kind == "silence" or cell.is_missing or cell.sensor_coverage.is_enough
    return "definition" if is_seen else "coverage"


class StoreHealth(NamedTuple):
    """Whether a rule is evaluated in a store. `reason`: why it is not; None if it is evaluated.

    `since`: when that began, ms since 1970 (UTC); None if the rule is evaluated, or never was.
    `is_earlier`: it may have begun earlier, because earlier days were not searched.
    """

    store_id: str
    reason: UnevaluatedReason | None = None
    since: int | None = None
    is_earlier: bool = False


class EvaluatedPartition(NamedTuple):
    """The merged ticks of a partition, and when the last one was evaluated, ms since 1970 (UTC)."""

    tick: Tick
    evaluated_at: int


class HealthTarget(NamedTuple):
    """A store that has sent data of all families of the rule, and what is used to read it.

    `first_day`: the UTC day of its first event; the latest one if there are several families.
    """

    store_id: str
    first_day: date
    snapshot: SnapshotReader
    partition: EvaluatedPartition


class RuleInForce(NamedTuple):
    """The version in force, with the metrics that it reads."""

    version: RuleVersion
    metrics: VersionMetrics

    def evaluation_tick(self, tick: Tick) -> EvaluationTick:
        """What is known of windows in a partition, and up to where they are closed."""
        return EvaluationTick.from_tick(tick, self.version.rule, self.metrics)


def partition_health(
    checked: RuleInForce, store_id: str, state: EvaluatedPartition, now: int
) -> StoreHealth | None:
    """Why nothing of the store's partition is evaluated at `now`; None: its windows decide."""
    # This also covers missing ticks: `evaluated_at` is the time of the last evaluated tick.
    if now - state.evaluated_at > _MAX_EVALUATION_LAG:
        return StoreHealth(store_id, "not_evaluated", state.evaluated_at)
    closed = checked.evaluation_tick(state.tick).closed
    # If the pipeline keeps up, the last window that is over is closed, or is just about to close.
    delay = checked.version.rule.delay * 1000
    if closed < start_of_window(state.tick.at - delay) - WINDOW_MILLIS:
        return StoreHealth(store_id, "behind", closed or None)
    return None


def find_day_reasons(
    checked: RuleInForce, read: HealthTarget, span: WindowSpan
) -> list[tuple[int, UnevaluatedReason | None]]:
    """The start and the reason of each window of a day that was read, newest first.

    Windows that the rule does not look at are absent, and so are silent windows before the day
    after the store's first event.
    """
    (version, metrics), snapshot, store_id = checked, read.snapshot, read.store_id
    looked_at = windows_in_schedule(version.rule, snapshot.days(store_id), span)
    begun = utc_span(read.first_day + timedelta(days=1)).start
    known_by = checked.evaluation_tick(read.partition.tick)
    reasons: list[tuple[int, UnevaluatedReason | None]] = []
    for window in reversed([*snapshot.windows(version.rule, metrics, store_id, span)]):
        reason = find_reason(version.rule, metrics, window, known_by)
        # The first record says nothing about the hours before it arrived.
        is_before = reason == "no_data" and window.start < begun
        if window.start in looked_at and not is_before:
            reasons.append((window.start, reason))
    return reasons
