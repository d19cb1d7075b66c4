"""The metrics and usual values that a version of a rule reads of a window."""

from collections.abc import Hashable, Mapping
from typing import NamedTuple

import structlog

from alerting.evaluate.snapshot.rule_stores import has_store_list
from alerting.rules.rule import EVALUATED_KINDS, AgainstBaseline, Rule, RuleVersion
from serving.metrics import catalogue
from serving.metrics.catalogue import Metric
from tally.errors import UnknownName

log = structlog.get_logger()


class VersionMetrics(NamedTuple):
    """The metrics that a version reads of a window.

    `metric`: the rule's metric; for a silence rule any metric of the family alone. `minimum`: each
    metric of the rule's `minimum` with its least value. `further`: each metric of `and`.
    """

    metric: Metric
    minimum: tuple[tuple[Metric, int], ...]
    further: tuple[Metric, ...] = ()

    @property
    def all(self) -> tuple[Metric, ...]:
        """All metrics, the rule's own metric first."""
        return (self.metric, *(metric for metric, _ in self.minimum), *self.further)

    @property
    def families(self) -> tuple[str, ...]:
        """Names of the families that a verdict needs: their windows closed, their data there."""
        names = (family.name for metric in self.all for family in metric.families)
        return tuple(dict.fromkeys(names))


class VersionReading(NamedTuple):
    """A version and the metrics that it reads."""

    version: RuleVersion
    metrics: VersionMetrics


# One version for each distinct reading, because many versions read the same.
Readings = Mapping[Hashable, VersionReading]


def resolve_metrics(rule: Rule) -> VersionMetrics | None:
    """The metrics that the rule reads; None for a rule that is not judged.

    Not judged are rules of other kinds, rules on single subjects that are no stock rules, and rules
    whose metric no longer exists.
    """
    # So far, articles are the only subjects that are judged one by one.
    if rule.kind not in EVALUATED_KINDS or (rule.subject == "none") == (rule.kind == "stock"):
        return None
    try:
        if rule.kind == "silence":
            metric = catalogue.single_family_metrics()[rule.family or ""]
        else:
            metric = catalogue.metric(rule.metric or "")
        least = rule.minimum.items()
        minimum = tuple((catalogue.metric(name), wanted) for name, wanted in least)
        further = tuple(catalogue.metric(condition.metric) for condition in rule.and_)
    except (UnknownName, KeyError) as error:
        log.warning("rule is not judged", rule=rule.rule_id, reason=str(error))
        return None
    # The catalogue may differ from the one by which the rule was checked.
    is_stock = metric.stock is not None
    if is_stock != (rule.kind == "stock") or any(extra.stock is not None for extra in further):
        return None
    return VersionMetrics(metric, minimum, further)


def build_reading_key(rule: Rule) -> Hashable:
    """The key of what the facts of a window depend on; rules with equal keys have equal facts."""
    condition = rule.condition
    usual = condition.baseline if isinstance(condition, AgainstBaseline) else None
    own = rule.kind, rule.metric or rule.family, rule.delay, usual
    further = ("and", *(extra.metric for extra in rule.and_)) if rule.and_ else ()
    # Missing data counts as nothing in a total, or makes it unknown, depending on `on_silence`.
    total = (rule.grain, rule.on_silence) if rule.grain != "quarter_hour" else ()
    # A store that has never sent data counts as silent only for rules that name it.
    named = ("named",) if has_store_list(rule) else ()
    return (*own, *rule.minimum.items(), *further, *total, *named)
