"""What of a rule does not go together, with itself or with the catalogue of metrics."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tally.alerts.conditions import UPWARD, negated, overlap, same_form
from tally.alerts.rule import AgainstBaseline, Condition, Rule, Threshold
from tally.alerts.rule_words import FIELD_WORDS


class MetricFacts(NamedTuple):
    """What a rule has to know of a metric of the catalogue.

    `kind`: additive, ratio, level, …; `axes`: by what it can be told; `only_rises`, `only_falls`:
    whatever else comes into a window; `denominator`: the metric below the line of a ratio.
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


def problems_of(rule: Rule, catalogue: RuleCatalogue) -> list[str]:
    """One line for each thing that does not fit: field, what is wrong, the fix."""
    silent = rule.kind == "silence"
    checks = [_of_silence(rule, catalogue)] if silent else [_of_values(rule, catalogue)]
    checks += [_of_subject(rule, catalogue), _of_minimum(rule, catalogue)]
    if rule.kind == "stock":
        checks.append(_of_stock(rule))
    if rule.rule_id in rule.unless:
        checks.append(iter(["unless: a rule cannot wait for itself; take it out"]))
    return [problem for check in checks for problem in check]


def not_judged(rule: Rule) -> str | None:
    """Why the rule cannot be applied yet, though it is right; None if it can."""
    # So far articles alone are judged one by one.
    if rule.subject != "none" and rule.kind != "stock":
        return f"subject: a store is judged as a whole, and not yet by {rule.subject}; leave it out"
    if rule.backfill:
        return (
            "backfill: what was before a rule is not told yet; leave it out, and look with"
            " `tally alerts simulate`"
        )
    return None


def _of_silence(rule: Rule, catalogue: RuleCatalogue) -> Iterator[str]:
    """Of a rule that waits for records: it has a family, and nothing that speaks of a value."""
    if rule.family is None:
        yield f"family: a silence rule needs one: {FIELD_WORDS['family'].wanted}"
    elif rule.family not in catalogue.families:
        yield f"family: there is no {rule.family!r}; {_known(catalogue.families)}"
    for name, value in (
        ("metric", rule.metric),
        ("condition", rule.condition),
        ("clear", rule.clear),
        ("and", rule.and_ or None),
        ("minimum", rule.minimum or None),
    ):
        if value is not None:
            yield f"{name}: a silence rule has none; leave it out"
    if rule.grain != "quarter_hour":
        yield "grain: a silence rule waits for quarter hours; write a longer `for` instead"
    if rule.evaluate == "eager":
        yield "evaluate: a window that has just begun is silent; only `close` fits a silence rule"
    if rule.on_silence == "hold":
        yield "on_silence: a silence rule raises on silence; leave it out"


def _of_values(rule: Rule, catalogue: RuleCatalogue) -> Iterator[str]:
    # Two places for one fact could differ.
    if rule.family is not None:
        yield "family: it follows from the metric; leave it out, or write `kind: silence`"
    yield from _of_condition(rule)
    if rule.metric is None:
        yield f"metric: a {rule.kind} rule needs one: {FIELD_WORDS['metric'].wanted}"
        return
    facts = catalogue.metrics.get(rule.metric)
    if facts is None:
        yield f"metric: there is no {rule.metric!r}; {_known(catalogue.metrics)}"
        return
    if (rule.kind == "stock") != (facts.kind == "stock"):
        yield _unlike_stock(rule.metric, facts)
    yield from _of_share(rule, rule.metric, facts)
    yield from _of_further(rule, catalogue)
    yield from _of_grain(rule, catalogue)
    if rule.evaluate == "eager" and not _is_provable(rule.condition, facts):
        yield _not_provable(rule.metric)


def _of_grain(rule: Rule, catalogue: RuleCatalogue) -> Iterator[str]:
    """Of a rule that is judged by totals of quarter hours."""
    if rule.grain == "quarter_hour":
        return
    if rule.kind != "threshold":
        known = "what is usual is known" if rule.kind == "baseline" else "stock is judged"
        yield f"grain: {known} of quarter hours alone; leave it out"
    for name in (rule.metric, *(one.metric for one in rule.and_)):
        facts = catalogue.metrics.get(name or "")
        if facts is not None and facts.kind == "level":
            yield f"grain: {name} is a level, of which there is no total; leave it out"
    if rule.evaluate == "eager" and rule.grain != "since_opening":
        yield f"evaluate: a total of one {rule.grain} is judged once it is over; write `close`"


def _of_share(rule: Rule, metric: str, facts: MetricFacts) -> Iterator[str]:
    if facts.denominator is not None and facts.denominator not in rule.minimum:
        # One visitor who buys is a conversion of 100 %.
        yield (
            f"minimum: {metric} is a share of {facts.denominator}, and of few it is chance;"
            f" write for example `minimum: {{{facts.denominator}: 20}}`"
        )


def _of_further(rule: Rule, catalogue: RuleCatalogue) -> Iterator[str]:
    """Of the conditions in `and`: each is of another metric of the store as a whole."""
    if rule.and_ and rule.kind == "stock":
        yield "and: a stock rule judges each article by itself; leave it out"
        return
    for further in rule.and_:
        name = further.metric
        facts = catalogue.metrics.get(name)
        if facts is None:
            yield f"and: there is no metric {name!r}; {_known(catalogue.metrics)}"
        elif name == rule.metric:
            yield f"and: {name} is the metric of `condition`; name another one"
        elif facts.kind == "stock":
            yield f"and: {name} is a stock, of single articles; name a metric of the store"
        else:
            yield from _of_share(rule, name, facts)
            if rule.evaluate == "eager" and not _is_provable(further.threshold, facts):
                yield _not_provable(name)


def _not_provable(metric: str) -> str:
    return (
        f"evaluate: more records of a window could undo this condition on {metric}, so that"
        " `eager` would tell what is taken back; write `evaluate: close`"
    )


def _unlike_stock(metric: str, facts: MetricFacts) -> str:
    if facts.kind == "stock":
        # Of how much there is, two numbers are judged: the least of a window and that at its end.
        return f"metric: {metric} is a stock; write `kind: stock`"
    return f"metric: {metric} is no stock; a stock rule needs one, e.g. stock_on_hand"


def _of_condition(rule: Rule) -> Iterator[str]:
    condition, clear = rule.condition, rule.clear
    if condition is None:
        yield f"condition: a {rule.kind} rule needs one: {FIELD_WORDS['condition'].wanted}"
        return
    if (rule.kind == "baseline") != isinstance(condition, AgainstBaseline):
        wanted = "kind: baseline" if rule.kind != "baseline" else "a `baseline` in `condition`"
        yield f"condition: a {rule.kind} rule has no such condition; write {wanted}"
    if isinstance(condition, AgainstBaseline) and _is_of_few(condition):
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
    if not same_form(condition, clear):
        yield "clear: it speaks of another number than condition; write both in one form"
    # It would raise and clear in one window, and again in the next.
    elif overlap(condition, clear):
        yield "clear: some values fulfil it and condition too; move one of them away"
    elif rule.kind == "stock" and clear == negated(condition):
        yield "clear: nothing lies between it and condition; leave a gap, so that stock may waver"


def _is_of_few(condition: AgainstBaseline) -> bool:
    return condition.sigmas is not None and condition.baseline == "same_weekday_4w"


def _of_stock(rule: Rule) -> Iterator[str]:
    """Of a rule of articles that run out: each is judged by itself, and by the least of it."""
    if isinstance(rule.condition, Threshold) and rule.condition.op in UPWARD:
        yield "condition: a stock rule is of too little; write `<=` or `<`"
    if rule.subject != "item":
        yield "subject: a stock rule judges each article by itself; leave it out"
    if rule.on_silence == "raise":
        yield "on_silence: of an article that nobody has counted nothing is known; leave it out"


def _of_subject(rule: Rule, catalogue: RuleCatalogue) -> Iterator[str]:
    # Of stocks: _of_stock.
    if rule.subject == "none" or rule.kind == "stock":
        return
    if rule.kind == "silence":
        axes = catalogue.families.get(rule.family or "", (rule.subject,))
    else:
        facts = catalogue.metrics.get(rule.metric or "")
        # An unknown metric was told of already; its axes are anybody's guess.
        axes = (rule.subject,) if facts is None else facts.axes
    if rule.subject not in axes:
        yield (
            f"subject: {rule.metric or rule.family} cannot be told by {rule.subject};"
            " write `subject: none`"
        )


def _of_minimum(rule: Rule, catalogue: RuleCatalogue) -> Iterator[str]:
    # Of a ratio or a level a minimum says nothing of how much has come.
    for metric in rule.minimum:
        facts = catalogue.metrics.get(metric)
        if facts is None:
            yield f"minimum: there is no metric {metric!r}; {_known(catalogue.metrics)}"
        elif facts.kind != "additive":
            yield f"minimum: {metric} is no sum but of kind {facts.kind}; name one that counts"


def _is_provable(condition: Condition | None, facts: MetricFacts) -> bool:
    """Whether nothing that comes later into the window undoes the condition once it has held."""
    # How much there is now is what it is, though it changes again.
    if facts.kind in ("level", "stock"):
        return True
    # What is usual is a snapshot of generations, which is made anew.
    if not isinstance(condition, Threshold):
        return False
    return facts.only_rises if condition.op in UPWARD else facts.only_falls


def _known(names: Iterable[str]) -> str:
    return f"there are {', '.join(sorted(names)) or 'none'}"
