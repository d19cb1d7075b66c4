"""Checks of a rule for contradictions in itself and with the catalogue of metrics."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from alerting.rules.conditions import UPWARD, has_same_form, negate, overlap
from alerting.rules.field_descriptions import FIELD_HELP
from alerting.rules.rule import AgainstBaseline, Condition, Rule, Threshold
from runtime.registry.sources import KINDS
from schemas import loader
from schemas.metric import AdditiveShape, AnyMetric, MaximumShape, MinimumShape, RatioShape
from tally.families.kind import ADDITIVE


class MetricFacts(NamedTuple):
    """The facts about a metric of the catalogue that the checks of a rule need.

    `kind`: additive, ratio, level, …; `axes`: the dimensions by which the metric can be split;
    `only_rises`, `only_falls`: how further records of a window can change its value;
    `denominator`: the metric by which a ratio divides.
    """

    kind: str
    families: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()
    only_rises: bool = False
    only_falls: bool = False
    denominator: str | None = None


class RuleCatalogue(NamedTuple):
    """The metrics by id, and the axes of each family by its name."""

    metrics: Mapping[str, MetricFacts]
    families: Mapping[str, tuple[str, ...]]


def find_problems(rule: Rule, catalogue: RuleCatalogue) -> list[str]:
    """The problems of a rule, one line each: field, what is wrong, the fix."""
    check_kind = _check_silence if rule.kind == "silence" else _check_values
    problems = [*check_kind(rule, catalogue), *_check_subject(rule, catalogue)]
    problems += _check_minimum(rule, catalogue)
    if rule.kind == "stock":
        problems += _check_stock(rule)
    if rule.rule_id in rule.unless:
        problems.append("unless: a rule cannot wait for itself; take it out")
    return problems


def find_unsupported_field(rule: Rule) -> str | None:
    """The reason why a valid rule cannot be applied yet; None if it can be."""
    # So far only articles are evaluated one by one.
    if rule.subject != "none" and rule.kind != "stock":
        return f"subject: a store is judged as a whole, and not yet by {rule.subject}; leave it out"
    if rule.backfill:
        return (
            "backfill: alerts of the time before a rule are not published; leave it out, and use"
            " `tally alerts simulate`"
        )
    return None


def _check_silence(rule: Rule, catalogue: RuleCatalogue) -> Iterator[str]:
    """Problems of a silence rule, which needs a family and may have no field about a value."""
    if rule.family is None:
        yield f"family: a silence rule needs one: {FIELD_HELP['family'].allowed}"
    elif rule.family not in catalogue.families:
        yield f"family: there is no {rule.family!r}; {_list_known(catalogue.families)}"
    values = {"metric": rule.metric, "condition": rule.condition, "clear": rule.clear}
    parts = {"and": rule.and_ or None, "minimum": rule.minimum or None}
    for name, value in {**values, **parts}.items():
        if value is not None:
            yield f"{name}: a silence rule has none; leave it out"
    if rule.grain != "quarter_hour":
        yield "grain: a silence rule waits for quarter hours; write a longer `for` instead"
    if rule.evaluate == "eager":
        yield "evaluate: a window that has just begun is silent; only `close` fits a silence rule"
    if rule.on_silence == "hold":
        yield "on_silence: a silence rule raises on silence; leave it out"


def _check_values(rule: Rule, catalogue: RuleCatalogue) -> Iterator[str]:
    # The same fact in two places could differ.
    if rule.family is not None:
        yield "family: it follows from the metric; leave it out, or write `kind: silence`"
    yield from _check_condition(rule)
    if rule.metric is None:
        yield f"metric: a {rule.kind} rule needs one: {FIELD_HELP['metric'].allowed}"
        return
    facts = catalogue.metrics.get(rule.metric)
    if facts is None:
        yield f"metric: there is no {rule.metric!r}; {_list_known(catalogue.metrics)}"
        return
    if rule.kind != "stock" and facts.kind == "stock":
        # Two stock numbers of a window are evaluated: its minimum and the value at its end.
        yield f"metric: {rule.metric} is a stock; write `kind: stock`"
    elif rule.kind == "stock" and facts.kind != "stock":
        yield f"metric: {rule.metric} is no stock; a stock rule needs one, e.g. stock_on_hand"
    yield from _check_share(rule, rule.metric, facts)
    yield from _check_further(rule, catalogue)
    yield from _check_grain(rule, catalogue)
    if rule.evaluate == "eager" and not _is_provable(rule.condition, facts):
        yield _eager_problem(rule.metric)


def _check_grain(rule: Rule, catalogue: RuleCatalogue) -> Iterator[str]:
    """Problems of the grain of a rule that is evaluated by totals of quarter hours."""
    if rule.grain == "quarter_hour":
        return
    if rule.kind != "threshold":
        known = "what is usual is known" if rule.kind == "baseline" else "stock is judged"
        yield f"grain: {known} of quarter hours alone; leave it out"
    for name in (rule.metric, *(further.metric for further in rule.and_)):
        facts = catalogue.metrics.get(name or "")
        if facts is not None and facts.kind == "level":
            yield f"grain: {name} is a level, of which there is no total; leave it out"
    if rule.evaluate == "eager" and rule.grain != "since_opening":
        yield f"evaluate: a total of one {rule.grain} is judged once it is over; write `close`"


def _check_share(rule: Rule, metric: str, facts: MetricFacts) -> Iterator[str]:
    if facts.denominator is not None and facts.denominator not in rule.minimum:
        # A single visitor who buys would be a conversion rate of 100 %.
        yield (
            f"minimum: {metric} is a share of {facts.denominator}, and of few it is chance;"
            f" write for example `minimum: {{{facts.denominator}: 20}}`"
        )


def _check_further(rule: Rule, catalogue: RuleCatalogue) -> Iterator[str]:
    """Problems of the conditions in `and`: each needs another metric of the whole store."""
    if rule.and_ and rule.kind == "stock":
        yield "and: a stock rule judges each article by itself; leave it out"
        return
    for further in rule.and_:
        name = further.metric
        facts = catalogue.metrics.get(name)
        if facts is None:
            yield f"and: there is no metric {name!r}; {_list_known(catalogue.metrics)}"
        elif name == rule.metric:
            yield f"and: {name} is the metric of `condition`; name another one"
        elif facts.kind == "stock":
            yield f"and: {name} is a stock, of single articles; name a metric of the store"
        else:
            yield from _check_share(rule, name, facts)
            if rule.evaluate == "eager" and not _is_provable(further.threshold, facts):
                yield _eager_problem(name)


def _eager_problem(metric: str) -> str:
    return (
        f"evaluate: more records of a window could undo this condition on {metric}, so that"
        " `eager` would tell what is taken back; write `evaluate: close`"
    )


def _check_condition(rule: Rule) -> Iterator[str]:
    condition, clear = rule.condition, rule.clear
    if condition is None:
        yield f"condition: a {rule.kind} rule needs one: {FIELD_HELP['condition'].allowed}"
        return
    if (rule.kind == "baseline") != isinstance(condition, AgainstBaseline):
        advice = "kind: baseline" if rule.kind != "baseline" else "a `baseline` in `condition`"
        yield f"condition: a {rule.kind} rule has no such condition; write {advice}"
    if isinstance(condition, AgainstBaseline) and (
        condition.baseline == "same_weekday_4w" and condition.sigmas is not None
    ):
        yield (
            "condition: four values say nothing of deviations; write `change`, or"
            " `baseline: hour_of_week`"
        )
    if rule.kind == "stock" and clear is None:
        yield (
            "clear: a stock rule needs one, for single units come and go;"
            ' write for example `clear: {op: ">=", value: 5}`'
        )
    if clear is None:
        return
    if not has_same_form(condition, clear):
        yield "clear: it speaks of another number than condition; write both in one form"
    # Such a rule would raise and clear in one window, and again in the next.
    elif overlap(condition, clear):
        yield "clear: some values fulfil it and condition too; move one of them away"
    elif rule.kind == "stock" and clear == negate(condition):
        yield "clear: nothing lies between it and condition; leave a gap, so that stock may waver"


def _check_stock(rule: Rule) -> Iterator[str]:
    """Problems of a stock rule, which evaluates each article by its minimum stock in a window."""
    if isinstance(rule.condition, Threshold) and rule.condition.op in UPWARD:
        yield "condition: a stock rule is of too little; write `<=` or `<`"
    if rule.subject != "item":
        yield "subject: a stock rule judges each article by itself; leave it out"
    if rule.on_silence == "raise":
        yield "on_silence: nothing is known of an article that was never counted; leave it out"


def _check_subject(rule: Rule, catalogue: RuleCatalogue) -> Iterator[str]:
    # The subject of stock rules is checked in _check_stock().
    if rule.subject == "none" or rule.kind == "stock":
        return
    if rule.kind == "silence":
        axes = catalogue.families.get(rule.family or "", (rule.subject,))
    else:
        facts = catalogue.metrics.get(rule.metric or "")
        # An unknown metric is reported already, and its axes cannot be known.
        axes = (rule.subject,) if facts is None else facts.axes
    if rule.subject not in axes:
        yield (
            f"subject: {rule.metric or rule.family} cannot be split by {rule.subject};"
            " write `subject: none`"
        )


def _check_minimum(rule: Rule, catalogue: RuleCatalogue) -> Iterator[str]:
    # A minimum of a ratio or a level does not say how many records have come.
    for metric in rule.minimum:
        facts = catalogue.metrics.get(metric)
        if facts is None:
            yield f"minimum: there is no metric {metric!r}; {_list_known(catalogue.metrics)}"
        elif facts.kind != "additive":
            yield f"minimum: {metric} is no sum but of kind {facts.kind}; name one that counts"


def _is_provable(condition: Condition | None, facts: MetricFacts) -> bool:
    """Whether no later record of the window can undo the condition once it has held."""
    # The current level is a fact, even if it changes again later.
    if facts.kind in ("level", "stock"):
        return True
    # A baseline is a snapshot of generations, and a later snapshot may differ.
    if not isinstance(condition, Threshold):
        return False
    return facts.only_rises if condition.op in UPWARD else facts.only_falls


def _list_known(names: Iterable[str]) -> str:
    return f"there are {', '.join(sorted(names)) or 'none'}"


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
    limited = (entry for entry in source.fields if entry.minimum is not None)
    never_negative = {entry.name for entry in limited if (entry.minimum or 0) >= 0}
    return entry.value.sum.keys() <= counted | never_negative
