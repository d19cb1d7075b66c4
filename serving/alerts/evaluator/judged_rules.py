"""The rules as they are judged: each version with the metrics that it reads, in an order in which
a rule comes after those that it waits for."""

from bisect import bisect_left, bisect_right
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import structlog

from serving.alerts.evaluator.calendar import WindowSpan
from serving.alerts.evaluator.rule_stores import expected_stores
from serving.alerts.evaluator.version_metrics import (
    Readings,
    VersionMetrics,
    VersionReading,
    metrics_of,
    reading_of,
)
from tally.alerts.rule import AgainstBaseline, RuleVersion, version_at

# By id the versions of each rule, ascending.
RuleVersions = Mapping[str, Sequence[RuleVersion]]

# Days of which is kept what rules read.
_MOST_SPANS = 1_000

log = structlog.get_logger()


# Windows, and the version that judges them if any does.
JudgedSpan: TypeAlias = tuple[RuleVersion | None, WindowSpan]


class _CutSpan(NamedTuple):
    """Windows by the versions that judge them; `readings`: what that reads of a store; `unless`:
    ids of the rules that these versions wait for."""

    span: WindowSpan
    pieces: list[JudgedSpan]
    readings: Hashable
    unless: frozenset[str] = frozenset()


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

    def is_retired(self, window: int) -> bool:
        """Whether a version is in force in the window (ms since 1970, UTC) that retires the
        rule."""
        found = version_at(self.versions, window)
        return found is not None and found.retired

    def is_judged(self, window: int) -> bool:
        """Whether the version in force in the window (ms since 1970, UTC) can be judged."""
        found = version_at(self.versions, window)
        return found is not None and found.version in self._metrics

    def reading(self, number: int) -> Hashable:
        """What the facts of a window hang on, by the version of that number: see reading_of()."""
        return self._readings[number]

    def judging(self, span: WindowSpan) -> Sequence[JudgedSpan]:
        """The span in its order, cut where another version begins; None judges by nothing."""
        return self._cut_at(span).pieces

    def readings(self, span: WindowSpan) -> Hashable:
        """What judging the span reads of a store: of rules that read the same it is equal."""
        return self._cut_at(span).readings

    def reads(self, span: WindowSpan) -> Iterator[tuple[Hashable, VersionReading]]:
        """What its own versions read to judge the span."""
        for version, _ in self.judging(span):
            metrics = self.metrics(version.version) if version else None
            if version is not None and metrics is not None:
                condition = version.rule.condition
                usual = condition.baseline if isinstance(condition, AgainstBaseline) else None
                names = (one.entry.id for one in metrics.all)
                yield (usual, *names), VersionReading(version, metrics)

    def unless_in(self, span: WindowSpan) -> frozenset[str]:
        """Ids of the rules that a version waits for which judges windows of the span."""
        return self._cut_at(span).unless

    def _cut_at(self, span: WindowSpan) -> "_CutSpan":
        # Stores of one zone have the same days.
        if self._cut.span != span:
            pieces = [*self._cut_up(span)]
            each = [one.rule for one, _ in pieces if one]
            read = tuple((reading_of(rule), rule.unless) for rule in each)
            unless = frozenset[str]().union(*(one.unless for one in each))
            self._cut = _CutSpan(span, pieces, read, unless)
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
    """All rules that are judged, in the order of judging; `offset`: read up to there; `all`: by id
    also those that cannot be judged."""

    def __init__(self, chains: RuleVersions, offset: int = 0) -> None:
        self.offset = offset
        # Who calls for nothing whatever is served is not looked at again with each tick.
        self.all = {rule_id: JudgedRule(rule_id, versions) for rule_id, versions in chains.items()}
        named = {rule_id: rule for rule_id, rule in self.all.items() if rule.families}
        self.rules = tuple(named[rule_id] for rule_id in _in_order(named))
        self._places = {rule.rule_id: place for place, rule in enumerate(self.rules)}
        self._waits_for: dict[Hashable, Sequence[JudgedRule]] = {}
        # By span, and by rule.
        self._readings: dict[WindowSpan, dict[str, Readings]] = {}

    def waits_for(
        self, rule: JudgedRule, names: frozenset[str] | tuple[str, ...]
    ) -> Sequence[JudgedRule]:
        """Those of the rules named in its `unless` that are judged before it."""
        if not names:
            return ()
        key = rule.rule_id, names
        if key not in self._waits_for:
            # By places and not by names: in a circle one of them would wait for itself.
            place = self._places[rule.rule_id]
            places = (self._places.get(name, place) for name in names)
            self._waits_for[key] = [self.rules[one] for one in places if one < place]
        return self._waits_for[key]

    def waited_for(
        self, rule: JudgedRule, span: WindowSpan, known: Container[str]
    ) -> Iterator[JudgedRule]:
        """The rule and all that it waits for in the span, directly or not, each behind those that
        it waits for itself.

        `known`: by their ids those that are left out; whoever takes a rule makes it known.
        """
        left = [rule]
        # Not by calls of itself: a chain of rules may be as long as anybody likes.
        while left:
            one = left[-1]
            others = self.waits_for(one, one.unless_in(span))
            if missing := [other for other in others if other.rule_id not in known]:
                left += missing
                continue
            left.pop()
            if one.rule_id not in known:
                yield one

    def behind(self, rule: JudgedRule) -> list[JudgedRule]:
        """All rules that any of its versions waits for, directly or not, in the order of judging;
        it is not among them."""
        found: dict[str, JudgedRule] = {}
        left = [rule]
        while left:
            one = left.pop()
            for other in self.waits_for(one, one.unless):
                if other.rule_id not in found:
                    found[other.rule_id] = other
                    left.append(other)
        return sorted(found.values(), key=lambda one: self._places[one.rule_id])

    @cached_property
    def waiting(self) -> frozenset[str]:
        """Ids of the rules that wait for another one."""
        return frozenset(one.rule_id for one in self.rules if one.unless)

    def readings(self, rule: JudgedRule, span: WindowSpan) -> Readings:
        """What is read to judge the span, by that rule and by all that it waits for."""
        if span not in self._readings and len(self._readings) >= _MOST_SPANS:
            self._readings = {}
        # Stores of one zone have the same days.
        known = self._readings.setdefault(span, {})
        for one in self.waited_for(rule, span, known):
            found = dict(one.reads(span))
            for other in self.waits_for(one, one.unless_in(span)):
                found.update(known[other.rule_id])
            known[one.rule_id] = found
        return known[rule.rule_id]

    @cached_property
    def families(self) -> tuple[str, ...]:
        """Names of all families that are read, ascending."""
        return tuple(sorted({name for rule in self.rules for name in rule.families}))

    @cached_property
    def expected(self) -> Mapping[str, frozenset[str]]:
        """By family the stores that should send of it: silence rules in force name them."""
        in_force = (rule for rule in self.rules if not rule.versions[-1].retired)
        return expected_stores(version for rule in in_force for version in rule.versions)

    def since(self, family: str) -> int:
        """Start of the first window of the family that any rule judges, ms since 1970 (UTC)."""
        return min(rule.since for rule in self.rules if family in rule.families)


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
