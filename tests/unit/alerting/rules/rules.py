"""Rules for tests: a good one of each kind, and the catalogue that they are of."""

from typing import Any

import pytest

from alerting.rules.checks import MetricFacts, RuleCatalogue
from alerting.rules.rule import Rule
from alerting.rules.rule_file import parse_rule_yaml, validate_rule
from tally.errors import BadRule

COUNTERS = ("traffic",)
CATALOGUE = RuleCatalogue(
    {
        "visitors": MetricFacts("additive", COUNTERS, only_rises=True),
        "revenue": MetricFacts("additive", ("sales",)),
        "conversion": MetricFacts("ratio", ("sales", "traffic"), denominator="visitors"),
        "longest_wait": MetricFacts("maximum", ("queues",), ("device",), only_rises=True),
        "shortest_wait": MetricFacts("minimum", ("queues",), only_falls=True),
        "inside": MetricFacts("level", COUNTERS),
        "on_hand": MetricFacts("stock", ("inventory", "sales"), ("item_id",)),
    },
    {"sales": ("currency",), "traffic": (), "queues": ("device",)},
)
GOOD: dict[str, dict[str, Any]] = {
    "threshold": {
        "rule_id": "many-visitors",
        "metric": "visitors",
        "condition": {"op": ">=", "value": "40"},
        "clear": {"op": "<=", "value": "30"},
    },
    "baseline": {
        "rule_id": "unlike-last-month",
        "kind": "baseline",
        "metric": "revenue",
        "condition": {"baseline": "same_weekday_4w", "change": "<= -30 %"},
    },
    "silence": {"rule_id": "door-silent", "kind": "silence", "family": "traffic"},
    "stock": {
        "rule_id": "sold-out",
        "kind": "stock",
        "metric": "on_hand",
        "condition": {"op": "<=", "value": "0"},
        "clear": {"op": ">=", "value": "5"},
    },
}


def rule(kind: str = "threshold", /, **changed: Any) -> Rule:
    """A good rule of the kind, changed; `for_` is the field `for`."""
    return validate_rule(told(kind, **changed), CATALOGUE)


def told(kind: str = "threshold", /, **changed: Any) -> dict[str, Any]:
    """The same as the plain values of its file; a field that gets None is left out."""
    named = {name.removesuffix("_"): value for name, value in changed.items()}
    return {name: one for name, one in {**GOOD[kind], **named}.items() if one is not None}


def problems(content: Any) -> list[str]:
    """The problems for which a text, or plain values, are refused."""
    with pytest.raises(BadRule) as refused:
        if isinstance(content, str | bytes):
            parse_rule_yaml(content, CATALOGUE)
        else:
            validate_rule(content, CATALOGUE)
    return [*refused.value.problems]
