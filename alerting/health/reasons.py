"""The reasons why a rule cannot judge a closed window, that is, why its verdict is unknown."""

from typing import Literal, TypeAlias

from alerting.evaluate.snapshot.rule_readings import VersionMetrics
from alerting.evaluate.snapshot.window_facts import EvaluationTick, WindowCells, build_facts
from alerting.rules.rule import AgainstBaseline, Rule

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
    """Why the rule cannot judge the closed window; None if it is judged.

    A window below the rule's `minimum` counts as judged: the rule itself excludes it, and every
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
    read = (cells.metric,) if rule.kind == "silence" else (cells.metric, *cells.minimum)
    if any(cell.is_hidden for cell in read):
        return "withheld"
    cell = cells.metric.cell
    is_seen = rule.kind == "silence" or cell.is_missing or cell.sensor_coverage.is_enough
    return "definition" if is_seen else "coverage"
