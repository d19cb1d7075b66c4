"""The rules as they are judged: each version with the metrics that it reads, in an order in which
a rule comes after those that it waits for."""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import structlog

from serving.alerts.evaluator.calendar import WindowSpan
from serving.query import catalogue
from serving.query.catalogue import Metric
from serving.query.stores import Store
from tally.alerts.rule import JUDGED, AgainstBaseline, InGroup, Rule, RuleVersion, version_at
from tally.errors import UnknownName

# By id the versions of each rule, ascending.
RuleVersions = Mapping[str, Sequence[RuleVersion]]

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


# Windows, and the version that judges them if any does.
JudgedSpan: TypeAlias = tuple[RuleVersion | None, WindowSpan]


class _CutSpan(NamedTuple):
    """Windows by the versions that judge them; `readings`: what that reads of a store."""

    span: WindowSpan
    pieces: list[JudgedSpan]
    readings: Hashable


class JudgedRule:
    """The versions of one rule, ascending; those that cannot be judged call for nothing."""

    def __init__(self, rule_id: str, versions: Sequence[RuleVersion]) -> None:
        self.rule_id, self.versions = rule_id, versions
        made = ((one.version, metrics_of(one.rule)) for one in versions)
        self._metrics = {number: found for number, found in made if found is not None}
        self._by_number = {one.version: one for one in versions}
        self._readings = {one.version: reading_of(one.rule) for one in versions}
        self._cut = _CutSpan(WindowSpan(0, 0), [], ())

    @cached_property
    def families(self) -> frozenset[str]:
        """Names of the families that any version reads."""
        return frozenset(name for one in self._metrics.values() for name in one.families)

    @cached_property
    def families_each(self) -> frozenset[tuple[str, ...]]:
        """Names of the families of each version."""
        return frozenset(one.families for one in self._metrics.values())

    @cached_property
    def delays(self) -> frozenset[tuple[tuple[str, ...], int]]:
        """Of each version its families, and its delay in milliseconds."""
        return frozenset(
            (found.families, self._by_number[number].rule.delay * 1000)
            for number, found in self._metrics.items()
        )

    @cached_property
    def since(self) -> int:
        """Start of the first window that it judges, ms since 1970 (UTC)."""
        return min(one.effective_from for one in self.versions)

    @cached_property
    def named_stores(self) -> frozenset[str] | None:
        """The stores that its versions name; None where one is about all, or about a region."""
        lists = [one.rule.stores for one in self.versions]
        names = [frozenset(one) for one in lists if isinstance(one, tuple)]
        return frozenset[str]().union(*names) if len(names) == len(lists) else None

    @cached_property
    def unless(self) -> frozenset[str]:
        """Ids of the rules that any version waits for."""
        return frozenset(name for one in self.versions for name in one.rule.unless)

    @cached_property
    def usual(self) -> frozenset[tuple[str | None, str]]:
        """Metric and baseline of each version that compares with what is usual."""
        each = ((one.rule.metric, one.rule.condition) for one in self.versions)
        return frozenset(
            (metric, of.baseline) for metric, of in each if isinstance(of, AgainstBaseline)
        )

    @cached_property
    def carries_over(self) -> bool:
        """Whether what it judges hangs on all windows before, as a stock does."""
        return any(one.metric.stock is not None for one in self._metrics.values())

    @cached_property
    def judges_stores(self) -> bool:
        """Whether any version is about stores as a whole."""
        return any(one.metric.stock is None for one in self._metrics.values())

    def version(self, number: int) -> RuleVersion:
        """The version of that number; the newest in place of one that the topic has no more."""
        return self._by_number.get(number, self.versions[-1])

    def metrics(self, number: int) -> VersionMetrics | None:
        """What the version reads, None for one that calls for nothing."""
        version = self._by_number[number]
        return None if version.retired else self._metrics.get(number)

    def reading(self, number: int) -> Hashable:
        """What the facts of a window hang on, by the version of that number: see reading_of()."""
        return self._readings[number]

    def judging(self, span: WindowSpan) -> Sequence[JudgedSpan]:
        """The span in its order, cut where another version begins; None judges by nothing."""
        return self._cut_at(span).pieces

    def readings(self, span: WindowSpan) -> Hashable:
        """What judging the span reads of a store: of rules that read the same it is equal."""
        return self._cut_at(span).readings

    def _cut_at(self, span: WindowSpan) -> "_CutSpan":
        # Stores of one zone have the same days.
        if self._cut.span != span:
            pieces = [*self._cut_up(span)]
            each = (one.rule for one, _ in pieces if one)
            read = tuple((reading_of(rule), rule.unless) for rule in each)
            self._cut = _CutSpan(span, pieces, read)
        return self._cut

    def _cut_up(self, span: WindowSpan) -> Iterator[JudgedSpan]:
        if not span.windows:
            return
        first = bisect_right(self._borders, span.start)
        inside = self._borders[first : bisect_left(self._borders, span.end)]
        for start, end in pairwise((span.start, *inside, span.end)):
            yield self._judging(start), WindowSpan(start, end)

    def _judging(self, window: int) -> RuleVersion | None:
        found = version_at(self.versions, window)
        return found if found and self.metrics(found.version) else None

    @cached_property
    def _borders(self) -> list[int]:
        """Starts of the windows with which a version may begin, ascending."""
        return sorted({one.effective_from for one in self.versions})


class JudgedRules:
    """All rules that are judged, in the order of judging; `offset`: read up to there."""

    def __init__(self, chains: RuleVersions, offset: int = 0) -> None:
        self.offset = offset
        # Who calls for nothing whatever is served is not looked at again with each tick.
        made = {rule_id: JudgedRule(rule_id, versions) for rule_id, versions in chains.items()}
        named = {rule_id: rule for rule_id, rule in made.items() if rule.families}
        self.rules = tuple(named[rule_id] for rule_id in _in_order(named))
        self._places = {rule.rule_id: place for place, rule in enumerate(self.rules)}

    def waits_for(self, rule: JudgedRule, names: Iterable[str]) -> list[JudgedRule]:
        """Those of the rules named in its `unless` that are judged before it."""
        # By places and not by names: in a circle one of them would wait for itself.
        place = self._places[rule.rule_id]
        places = (self._places.get(name, place) for name in names)
        return [self.rules[one] for one in places if one < place]

    @cached_property
    def families(self) -> tuple[str, ...]:
        """Names of all families that are read, ascending."""
        return tuple(sorted({name for rule in self.rules for name in rule.families}))

    @cached_property
    def expected(self) -> Mapping[str, frozenset[str]]:
        """By family the stores that should send of it: silence rules in force name them."""
        found: dict[str, frozenset[str]] = {}
        for rule in self.rules:
            for one in rule.versions if not rule.versions[-1].retired else ():
                family, stores = one.rule.family, one.rule.stores
                if family and isinstance(stores, tuple) and names_stores(one.rule):
                    found[family] = found.get(family, frozenset()).union(stores)
        return found

    def since(self, family: str) -> int:
        """Start of the first window of the family that any rule judges, ms since 1970 (UTC)."""
        return min(rule.since for rule in self.rules if family in rule.families)


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


def names_stores(rule: Rule) -> bool:
    """Whether it is a silence rule that names its stores one by one."""
    return rule.kind == "silence" and isinstance(rule.stores, tuple)


def is_of(rule: Rule, store: Store, day: date) -> bool:
    """Whether the rule is about the store, as that is on a local day."""
    if rule.stores == "all":
        return True
    if isinstance(rule.stores, InGroup):
        return rule.stores.region in store.entry.on(day).groups
    return store.store_id in rule.stores


def _in_order(rules: Mapping[str, JudgedRule]) -> Iterable[str]:
    """Each rule behind those that it waits for; else by id."""
    ordered = sorted(rules.items())
    waits = {rule_id: sorted(rule.unless & rules.keys()) for rule_id, rule in ordered}
    try:
        return tuple(TopologicalSorter(waits).static_order())
    except CycleError as error:
        # Two people may write them at once. By their ids one waits for the other, and not both.
        log.warning("rules wait for each other", rules=error.args[1])
        return tuple(waits)
