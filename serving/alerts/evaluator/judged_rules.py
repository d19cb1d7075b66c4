"""The rules as they are judged: each version with the metrics that it reads, in an order in which
a rule comes after those that it waits for."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import structlog

from serving.query import catalogue
from serving.query.catalogue import Metric
from serving.query.stores import Store
from tally.alerts.rule import JUDGED, InGroup, Rule, RuleVersion, version_at
from tally.errors import UnknownName

# By id the versions of each rule, ascending.
RuleVersions = Mapping[str, Sequence[RuleVersion]]

log = structlog.get_logger()


class VersionMetrics(NamedTuple):
    """What a version reads of a window: its metric, of a silence rule any that is of the family
    alone, and with its least value each metric of `minimum`."""

    metric: Metric
    minimum: tuple[tuple[Metric, int], ...]

    @property
    def all(self) -> tuple[Metric, ...]:
        """The metric first."""
        return (self.metric, *(one for one, _ in self.minimum))

    @property
    def families(self) -> tuple[str, ...]:
        """Names of the families that have to be closed, and to be there, for a verdict."""
        found = (family.name for metric in self.all for family in metric.families)
        return tuple(dict.fromkeys(found))


class JudgedRule:
    """The versions of one rule, ascending; those that cannot be judged call for nothing."""

    def __init__(self, rule_id: str, versions: Sequence[RuleVersion]) -> None:
        self.rule_id, self.versions = rule_id, versions
        made = ((one.version, metrics_of(one.rule)) for one in versions)
        self._metrics = {number: found for number, found in made if found is not None}
        self._by_number = {one.version: one for one in versions}

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
    def unless(self) -> frozenset[str]:
        """Ids of the rules that any version waits for."""
        return frozenset(name for one in self.versions for name in one.rule.unless)

    def version(self, number: int) -> RuleVersion:
        """The version of that number; the newest in place of one that the topic has no more."""
        return self._by_number.get(number, self.versions[-1])

    def metrics(self, number: int) -> VersionMetrics | None:
        """What the version reads, None for one that calls for nothing."""
        version = self._by_number[number]
        return None if version.retired else self._metrics.get(number)

    def judging(self, window: int) -> RuleVersion | None:
        """The version by which a window is judged (its start, ms since 1970, UTC), if any is."""
        found = version_at(self.versions, window)
        return found if found and self.metrics(found.version) else None


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

    def since(self, family: str) -> int:
        """Start of the first window of the family that any rule judges, ms since 1970 (UTC)."""
        return min(rule.since for rule in self.rules if family in rule.families)


def metrics_of(rule: Rule) -> VersionMetrics | None:
    """What the rule reads; None for one that is not judged: of another kind, of single subjects,
    or of a metric that is not there any more."""
    if rule.kind not in JUDGED or rule.subject != "none":
        return None
    try:
        if rule.kind == "silence":
            metric = catalogue.of_one_family()[rule.family or ""]
        else:
            metric = catalogue.metric(rule.metric or "")
        least = rule.minimum.items()
        minimum = tuple((catalogue.metric(name), wanted) for name, wanted in least)
    except (UnknownName, KeyError) as error:
        log.warning("rule is not judged", rule=rule.rule_id, reason=str(error))
        return None
    return VersionMetrics(metric, minimum)


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
