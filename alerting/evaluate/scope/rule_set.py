"""The rules in the order of evaluation, in which a rule comes after those that it waits for.

Each version comes with the metrics that it reads.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import structlog

from alerting.evaluate.snapshot.calendar import WindowSpan
from alerting.evaluate.snapshot.rule_readings import (
    Readings,
    VersionMetrics,
    VersionReading,
    build_reading_key,
    find_mandatory_stores,
    resolve_metrics,
)
from alerting.rules.rule import AgainstBaseline, RuleVersion, version_at

# The versions of each rule by its id, ascending.
RuleVersions = Mapping[str, Sequence[RuleVersion]]

# Cache entries: days for which the readings of rules are kept.
_CACHE_SIZE = 1_000

log = structlog.get_logger()


# The version that evaluates the windows, or None, and the windows.
VersionSpan: TypeAlias = tuple[RuleVersion | None, WindowSpan]


class _SplitSpan(NamedTuple):
    """A span cut into pieces by the versions that evaluate them.

    `readings`: what an evaluation of the span reads of a store. `unless`: ids of the rules that
    these versions wait for.
    """

    span: WindowSpan
    pieces: list[VersionSpan]
    readings: Hashable
    unless: frozenset[str] = frozenset()


class VersionedRule:
    """One rule with its versions, ascending; one that cannot be evaluated calls for no alert."""

    def __init__(self, rule_id: str, versions: Sequence[RuleVersion]) -> None:
        self.rule_id, self.versions = rule_id, versions
        metrics = ((version.version, resolve_metrics(version.rule)) for version in versions)
        self._metrics = {number: found for number, found in metrics if found is not None}
        self._by_number = {version.version: version for version in versions}
        self._readings = {version.version: build_reading_key(version.rule) for version in versions}
        self._last_split = _SplitSpan(WindowSpan(0, 0), [], ())

    @cached_property
    def families(self) -> frozenset[str]:
        """Names of the families that any version reads."""
        return frozenset(name for metrics in self._metrics.values() for name in metrics.families)

    @cached_property
    def families_each(self) -> frozenset[tuple[str, ...]]:
        """Names of the families of each version."""
        return frozenset(metrics.families for metrics in self._metrics.values())

    @cached_property
    def delays(self) -> frozenset[tuple[tuple[str, ...], int]]:
        """The families of each version, and its delay in milliseconds."""
        return frozenset(
            (metrics.families, self._by_number[number].rule.delay * 1000)
            for number, metrics in self._metrics.items()
        )

    @cached_property
    def since(self) -> int:
        """The start of the first window that the rule evaluates, ms since 1970 (UTC)."""
        return min(version.effective_from for version in self.versions)

    @cached_property
    def store_ids(self) -> frozenset[str] | None:
        """The stores that the versions name; None where one is about all stores or a region."""
        lists = [version.rule.stores for version in self.versions]
        names = [frozenset(stores) for stores in lists if isinstance(stores, tuple)]
        return frozenset[str]().union(*names) if len(names) == len(lists) else None

    @cached_property
    def unless(self) -> frozenset[str]:
        """Ids of the rules that any version waits for."""
        return frozenset(name for version in self.versions for name in version.rule.unless)

    @cached_property
    def baselines(self) -> frozenset[tuple[str | None, str]]:
        """The metric and the baseline of each version that compares with a baseline."""
        each = ((version.rule.metric, version.rule.condition) for version in self.versions)
        return frozenset(
            (metric, condition.baseline)
            for metric, condition in each
            if isinstance(condition, AgainstBaseline)
        )

    @cached_property
    def is_cumulative(self) -> bool:
        """Whether the evaluated values depend on all earlier windows, as a stock does."""
        return any(metrics.metric.stock is not None for metrics in self._metrics.values())

    @cached_property
    def evaluates_stores(self) -> bool:
        """Whether any version is about stores as a whole."""
        return any(metrics.metric.stock is None for metrics in self._metrics.values())

    def version(self, number: int) -> RuleVersion:
        """The version with this number, or the newest version if the topic no longer has it."""
        return self._by_number.get(number, self.versions[-1])

    def metrics(self, number: int) -> VersionMetrics | None:
        """The metrics that the version reads; None for a version that calls for no alert."""
        version = self._by_number[number]
        return None if version.retired else self._metrics.get(number)

    def is_retired(self, window: int) -> bool:
        """Whether the version in force in the window (ms since 1970, UTC) retires the rule."""
        found = version_at(self.versions, window)
        return found is not None and found.retired

    def can_evaluate(self, window: int) -> bool:
        """Whether the version in force in the window (ms since 1970, UTC) can be evaluated."""
        found = version_at(self.versions, window)
        return found is not None and found.version in self._metrics

    def reading_key(self, number: int) -> Hashable:
        """A key for what the version with this number reads of a window; see
        build_reading_key()."""
        return self._readings[number]

    def split_by_version(self, span: WindowSpan) -> Sequence[VersionSpan]:
        """The span, cut where a version begins; a piece of version None is not evaluated."""
        return self._split_cached(span).pieces

    def readings_key(self, span: WindowSpan) -> Hashable:
        """A key for what the span reads of a store; equal for rules that read the same."""
        return self._split_cached(span).readings

    def own_readings(self, span: WindowSpan) -> Iterator[tuple[Hashable, VersionReading]]:
        """What the rule's own versions read to evaluate the span, each reading with its key."""
        for version, _ in self.split_by_version(span):
            metrics = self.metrics(version.version) if version else None
            if version is not None and metrics is not None:
                condition = version.rule.condition
                baseline = condition.baseline if isinstance(condition, AgainstBaseline) else None
                names = (metric.entry.id for metric in metrics.all)
                yield (baseline, *names), VersionReading(version, metrics)

    def unless_in(self, span: WindowSpan) -> frozenset[str]:
        """Ids of the rules that the versions evaluating the span wait for."""
        return self._split_cached(span).unless

    def _split_cached(self, span: WindowSpan) -> "_SplitSpan":
        # Only the last span is cached: stores of one zone have the same days.
        if self._last_split.span != span:
            pieces = [*self._split(span)]
            rules = [version.rule for version, _ in pieces if version]
            readings = tuple((build_reading_key(rule), rule.unless) for rule in rules)
            unless = frozenset[str]().union(*(rule.unless for rule in rules))
            self._last_split = _SplitSpan(span, pieces, readings, unless)
        return self._last_split

    def _split(self, span: WindowSpan) -> Iterator[VersionSpan]:
        if not span.windows:
            return
        first = bisect_right(self._boundaries, span.start)
        inside = self._boundaries[first : bisect_left(self._boundaries, span.end)]
        for start, end in pairwise((span.start, *inside, span.end)):
            yield self._evaluable_version(start), WindowSpan(start, end)

    def _evaluable_version(self, window: int) -> RuleVersion | None:
        found = version_at(self.versions, window)
        return found if found and self.metrics(found.version) else None

    @cached_property
    def _boundaries(self) -> list[int]:
        """The starts of the windows with which a version may begin, ascending."""
        return sorted({version.effective_from for version in self.versions})


class RuleSet:
    """All rules that are evaluated, in the order of evaluation.

    `offset`: the offset of the rules topic up to which they were read. `all`: every rule by id,
    also those that cannot be evaluated.
    """

    def __init__(self, chains: RuleVersions, offset: int = 0) -> None:
        self.offset = offset
        # A rule that can never call for an alert is only in `all`, so that ticks skip it.
        self.all = {
            rule_id: VersionedRule(rule_id, versions) for rule_id, versions in chains.items()
        }
        named = {rule_id: rule for rule_id, rule in self.all.items() if rule.families}
        self.rules = tuple(named[rule_id] for rule_id in _evaluation_order(named))
        self._places = {rule.rule_id: place for place, rule in enumerate(self.rules)}
        self._dependencies: dict[Hashable, Sequence[VersionedRule]] = {}
        # Readings by span and by rule id.
        self._readings: dict[WindowSpan, dict[str, Readings]] = {}

    def find_dependencies(
        self, rule: VersionedRule, names: frozenset[str] | tuple[str, ...]
    ) -> Sequence[VersionedRule]:
        """The rules named in the rule's `unless` (`names`) that are evaluated before it."""
        if not names:
            return ()
        key = rule.rule_id, names
        if key not in self._dependencies:
            # Compared by place and not by name: in a circle a rule would wait for itself.
            place = self._places[rule.rule_id]
            places = (self._places.get(name, place) for name in names)
            self._dependencies[key] = [self.rules[earlier] for earlier in places if earlier < place]
        return self._dependencies[key]

    def iter_dependencies(
        self, rule: VersionedRule, span: WindowSpan, known: Container[str]
    ) -> Iterator[VersionedRule]:
        """The rule and all rules that it waits for in the span, each after those it waits for.

        `known`: ids of the rules to leave out; the caller adds each rule that it receives.
        """
        left = [rule]
        # Iterative, not recursive: a chain of rules may be of any length.
        while left:
            current = left[-1]
            others = self.find_dependencies(current, current.unless_in(span))
            if missing := [other for other in others if other.rule_id not in known]:
                left += missing
                continue
            left.pop()
            if current.rule_id not in known:
                yield current

    def readings(self, rule: VersionedRule, span: WindowSpan) -> Readings:
        """What the rule and all rules that it waits for read to evaluate the span."""
        if span not in self._readings and len(self._readings) >= _CACHE_SIZE:
            self._readings = {}
        # Cached by span: stores of one zone have the same days.
        known = self._readings.setdefault(span, {})
        for waited in self.iter_dependencies(rule, span, known):
            found = dict(waited.own_readings(span))
            for other in self.find_dependencies(waited, waited.unless_in(span)):
                found.update(known[other.rule_id])
            known[waited.rule_id] = found
        return known[rule.rule_id]

    @cached_property
    def families(self) -> tuple[str, ...]:
        """Names of all families that the rules read, ascending."""
        return tuple(sorted({name for rule in self.rules for name in rule.families}))

    @cached_property
    def mandatory_stores(self) -> Mapping[str, frozenset[str]]:
        """The stores by family that should send data, because silence rules in force name them."""
        in_force = (rule for rule in self.rules if not rule.versions[-1].retired)
        return find_mandatory_stores(version for rule in in_force for version in rule.versions)

    def since(self, family: str) -> int:
        """The start of the family's first window that any rule evaluates, ms since 1970 (UTC)."""
        return min(rule.since for rule in self.rules if family in rule.families)


def _evaluation_order(rules: Mapping[str, VersionedRule]) -> Iterable[str]:
    """The rule ids, each after those that it waits for, otherwise by id."""
    ordered = sorted(rules.items())
    waits = {rule_id: sorted(rule.unless & rules.keys()) for rule_id, rule in ordered}
    try:
        return tuple(TopologicalSorter(waits).static_order())
    except CycleError as error:
        # Two people may write such rules at once. In the order of ids only one of them waits.
        log.warning("rules wait for each other", rules=error.args[1])
        return tuple(waits)
