"""What a version of a rule reads of a window: metrics, and what is usual."""

from collections.abc import Hashable, Mapping
from typing import NamedTuple

import structlog

from serving.alerts.evaluator.rule_stores import names_stores
from serving.query import catalogue
from serving.query.catalogue import Metric
from tally.alerts.rule import JUDGED, AgainstBaseline, Rule, RuleVersion
from tally.errors import UnknownName

log = structlog.get_logger()


class VersionMetrics(NamedTuple):
    """What a version reads of a window: its metric, of a silence rule any that is of the family
    alone, with its least value each metric of `minimum`, and each metric of `and`."""

    metric: Metric
    minimum: tuple[tuple[Metric, int], ...]
    further: tuple[Metric, ...] = ()

    @property
    def all(self) -> tuple[Metric, ...]:
        """The metric first."""
        return (self.metric, *(one for one, _ in self.minimum), *self.further)

    @property
    def families(self) -> tuple[str, ...]:
        """Names of the families that have to be closed, and to be there, for a verdict."""
        found = (family.name for metric in self.all for family in metric.families)
        return tuple(dict.fromkeys(found))


class VersionReading(NamedTuple):
    """A version that reads something, and what that is."""

    version: RuleVersion
    metrics: VersionMetrics


# By what is read a version that reads it: many read the same.
Readings = Mapping[Hashable, VersionReading]


def metrics_of(rule: Rule) -> VersionMetrics | None:
    """What the rule reads; None for one that is not judged: of another kind, of single subjects,
    or of a metric that is not there any more."""
    # So far articles alone are judged one by one.
    if rule.kind not in JUDGED or (rule.subject == "none") == (rule.kind == "stock"):
        return None
    try:
        if rule.kind == "silence":
            metric = catalogue.of_one_family()[rule.family or ""]
        else:
            metric = catalogue.metric(rule.metric or "")
        least = rule.minimum.items()
        minimum = tuple((catalogue.metric(name), wanted) for name, wanted in least)
        further = tuple(catalogue.metric(one.metric) for one in rule.and_)
    except (UnknownName, KeyError) as error:
        log.warning("rule is not judged", rule=rule.rule_id, reason=str(error))
        return None
    # Another catalogue than that by which it was checked.
    is_stock = metric.stock is not None
    if is_stock != (rule.kind == "stock") or any(one.stock is not None for one in further):
        return None
    return VersionMetrics(metric, minimum, further)


def reading_of(rule: Rule) -> Hashable:
    """What the facts of a window hang on: for rules of which it is equal they are the same."""
    condition = rule.condition
    usual = condition.baseline if isinstance(condition, AgainstBaseline) else None
    of = rule.kind, rule.metric or rule.family, rule.delay, usual
    further = ("and", *(one.metric for one in rule.and_)) if rule.and_ else ()
    # What has not come is nothing to a total, or makes it unknown: `on_silence` says which.
    total = (rule.grain, rule.on_silence) if rule.grain != "quarter_hour" else ()
    # Of a store that has never sent anything, to rules that name it there is silence to be known.
    named = ("named",) if names_stores(rule) else ()
    return (*of, *rule.minimum.items(), *further, *total, *named)
