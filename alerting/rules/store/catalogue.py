"""Catalogue of the metrics and families that alert rules may use."""

from functools import cache

from alerting.rules.checks import MetricFacts, RuleCatalogue
from runtime.registry.sources import KINDS
from schemas import loader
from schemas.metric import AdditiveShape, AnyMetric, MaximumShape, MinimumShape, RatioShape
from tally.families.additive import ADDITIVE


@cache
def rule_catalogue() -> RuleCatalogue:
    """The metrics of schemas/ and of all sources, and the families. Raises BadSource."""
    metrics = {entry.id: _to_metric_facts(entry) for entry in loader.metrics()}
    families = {name: source.family.axes for name, source in loader.sources().items()}
    return RuleCatalogue(metrics, families)


def _to_metric_facts(entry: AnyMetric) -> MetricFacts:
    sources = [loader.sources()[name] for name in entry.families]
    # In a derived family a later record may lower the value of earlier ones.
    adds_up = all(KINDS[source.family.kind] is ADDITIVE for source in sources)
    return MetricFacts(
        kind=entry.kind,
        families=entry.families,
        axes=entry.by,
        only_rises=adds_up and (_never_falls(entry) or isinstance(entry, MaximumShape)),
        only_falls=adds_up and isinstance(entry, MinimumShape),
        denominator=entry.value.denominator if isinstance(entry, RatioShape) else None,
    )


def _never_falls(entry: AnyMetric) -> bool:
    """Whether a further record can never lower the sum, by its source's descriptor.

    A receipt that is taken back adds -1: such a field has no minimum.
    """
    # A subtracted part rises too, and the whole falls.
    if not isinstance(entry, AdditiveShape) or -1 in entry.value.sum.values():
        return False
    (family,) = entry.families
    source = loader.sources()[family]
    counted = {part.name for part in source.family.parts if part.kind == "count"}
    minimums = {source_field.name: source_field.minimum for source_field in source.fields}
    never_negative = {
        name for name, minimum in minimums.items() if minimum is not None and minimum >= 0
    }
    return entry.value.sum.keys() <= counted | never_negative
