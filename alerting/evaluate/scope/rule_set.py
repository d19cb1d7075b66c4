"""The rules in the order of evaluation, each after those that it waits for, and what they read."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import NamedTuple

import structlog

from alerting.evaluate.scope.calendar import WindowSpan
from alerting.rules.rule import (
    EVALUATED_KINDS,
    AgainstBaseline,
    InGroup,
    Rule,
    RuleVersion,
    version_at,
)
from serving.questions import catalogue
from serving.questions.catalogue import Metric
from serving.questions.stores import Store
from tally.alerts.baseline import BaselineName, WindowBaseline
from tally.errors import UnknownName


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


# The versions of each rule by its id, ascending.
RuleVersions = Mapping[str, Sequence[RuleVersion]]
# Cache entries: days for which the readings of rules are kept.
_CACHE_SIZE = 1_000

log = structlog.get_logger()


def resolve_metrics(rule: Rule) -> VersionMetrics | None:
    """The metrics that the rule reads; None for a rule that is not evaluated.

    Not evaluated are rules of other kinds, rules on single subjects that are no stock rules, and
    rules whose metric no longer exists.
    """
    # So far, articles are the only subjects that are evaluated one by one.
    if rule.kind not in EVALUATED_KINDS or (rule.subject == "none") == (rule.kind == "stock"):
        return None
    try:
        if rule.kind == "silence":
            metric = catalogue.single_family_metrics()[rule.family or ""]
        else:
            metric = catalogue.metric(rule.metric or "")
        least = rule.minimum.items()
        minimum = tuple((catalogue.metric(name), value) for name, value in least)
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
    main = rule.kind, rule.metric or rule.family, rule.delay, _baseline_name(rule)
    further = ("and", *(extra.metric for extra in rule.and_)) if rule.and_ else ()
    # Missing data counts as nothing in a total, or makes it unknown, depending on `on_silence`.
    total = (rule.grain, rule.on_silence) if rule.grain != "quarter_hour" else ()
    # A store that has never sent data counts as silent only for rules that name it.
    named = ("named",) if has_store_list(rule) else ()
    return (*main, *rule.minimum.items(), *further, *total, *named)


def applies_to(rule: Rule, store: Store, day: date) -> bool:
    """Whether the rule is about the store, by the store's groups on a local day."""
    if rule.stores == "all":
        return True
    if isinstance(rule.stores, InGroup):
        return rule.stores.region in store.entry.valid_on(day).groups
    return store.store_id in rule.stores


def has_store_list(rule: Rule) -> bool:
    """Whether the rule is a silence rule that names its stores one by one."""
    return rule.kind == "silence" and isinstance(rule.stores, tuple)


def _baseline_name(rule: Rule) -> BaselineName | None:
    return rule.condition.baseline if isinstance(rule.condition, AgainstBaseline) else None


# Not a tuple: a tuple of the same fields could equal the key of another kind of reading.
@dataclass(frozen=True)
class BaselineRequest:
    """The usual values wanted of a metric on a store's day, by its start in ms since 1970 (UTC)."""

    metric: str
    store_id: str
    start: int
    baseline: BaselineName


# The usual values by the start of the window, ms since 1970 (UTC).
BaselineWindows = Mapping[int, WindowBaseline]


def baseline_request(rule: Rule, store_id: str, start: int) -> BaselineRequest | None:
    """The usual values that the rule needs on the day from `start` on (ms, UTC); None for none."""
    if not isinstance(rule.condition, AgainstBaseline) or rule.metric is None:
        return None
    return BaselineRequest(rule.metric, store_id, start, rule.condition.baseline)


class VersionReading(NamedTuple):
    """A version and the metrics that it reads; `key`: as build_reading_key() returns it."""

    version: RuleVersion
    metrics: VersionMetrics
    key: Hashable

    @property
    def rule(self) -> Rule:
        """The rule as the version has it."""
        return self.version.rule


class SplitSpan(NamedTuple):
    """A span cut into pieces by the versions that evaluate them; None evaluates nothing.

    `readings`: those of the pieces. `key`: a key for what an evaluation of the span reads of a
    store, equal for rules that read the same. `unless`: ids of the rules that these versions wait
    for.
    """

    span: WindowSpan
    pieces: Sequence[tuple[VersionReading | None, WindowSpan]] = ()
    readings: Sequence[VersionReading] = ()
    key: Hashable = ()
    unless: frozenset[str] = frozenset()


class VersionedRule:
    """One rule with its versions, ascending; one that cannot be evaluated calls for no alert.

    `since`: the start of the first window that it evaluates, ms since 1970 (UTC). `unless`: ids of
    the rules that any version waits for. `is_cumulative`: whether the evaluated values depend on
    all earlier windows, as a stock does; `evaluates_stores`: whether any version is about stores as
    a whole.
    """

    def __init__(self, rule_id: str, versions: Sequence[RuleVersion]) -> None:
        self.rule_id, self.versions = rule_id, versions
        self._by_number = {version.version: version for version in versions}
        self._readings = {
            version.version: VersionReading(version, metrics, build_reading_key(version.rule))
            for version in versions
            if (metrics := resolve_metrics(version.rule)) is not None
        }
        # The starts of the windows with which a version may begin.
        self._boundaries = sorted({version.effective_from for version in versions})
        self.since = min(self._boundaries, default=0)
        self.unless = frozenset(name for version in versions for name in version.rule.unless)
        stocks = [reading.metrics.metric.stock for reading in self._readings.values()]
        self.is_cumulative = any(stock is not None for stock in stocks)
        self.evaluates_stores = any(stock is None for stock in stocks)
        self._last_split = SplitSpan(WindowSpan(0, 0))

    @cached_property
    def delays(self) -> frozenset[tuple[tuple[str, ...], int]]:
        """The families of each version, and its delay in milliseconds."""
        return frozenset(
            (reading.metrics.families, reading.rule.delay * 1000)
            for reading in self._readings.values()
        )

    @cached_property
    def families(self) -> frozenset[str]:
        """Names of the families that any version reads."""
        return frozenset(name for families, _ in self.delays for name in families)

    @cached_property
    def store_ids(self) -> frozenset[str] | None:
        """The stores that the versions name; None where one is about all stores or a region."""
        lists = [version.rule.stores for version in self.versions]
        names = [frozenset(stores) for stores in lists if isinstance(stores, tuple)]
        return frozenset[str]().union(*names) if len(names) == len(lists) else None

    @cached_property
    def baselines(self) -> frozenset[tuple[str | None, str]]:
        """The metric and the baseline of each version that compares with a baseline."""
        rules = (version.rule for version in self.versions)
        return frozenset((rule.metric, name) for rule in rules if (name := _baseline_name(rule)))

    def version(self, number: int) -> RuleVersion:
        """The version with this number, or the newest version if the topic no longer has it."""
        return self._by_number.get(number, self.versions[-1])

    def is_retired(self, window: int) -> bool:
        """Whether the version in force in the window (ms since 1970, UTC) retires the rule."""
        found = version_at(self.versions, window)
        return found is not None and found.retired

    def is_unevaluable(self, window: int) -> bool:
        """Whether the version in force (ms since 1970, UTC) is not retired and not evaluated."""
        found = version_at(self.versions, window)
        return found is None or not (found.retired or found.version in self._readings)

    def split(self, span: WindowSpan) -> SplitSpan:
        """The span, cut where a version begins."""
        # Only the last span is cached: stores of one zone have the same days.
        if self._last_split.span != span:
            first = bisect_right(self._boundaries, span.start)
            inside = self._boundaries[first : bisect_left(self._boundaries, span.end)]
            borders = pairwise((span.start, *inside, span.end) if span.windows else ())
            pieces = [(self._reading_at(start), WindowSpan(start, end)) for start, end in borders]
            readings = [reading for reading, _ in pieces if reading]
            key = tuple((reading.key, reading.rule.unless) for reading in readings)
            unless = frozenset(name for reading in readings for name in reading.rule.unless)
            self._last_split = SplitSpan(span, pieces, readings, key, unless)
        return self._last_split

    def _reading_at(self, window: int) -> VersionReading | None:
        found = version_at(self.versions, window)
        return self._readings.get(found.version) if found and not found.retired else None


class RuleSet:
    """All rules that are evaluated, in the order of evaluation.

    `offset`: the offset of the rules topic up to which they were read. `all`: every rule by id,
    also those that cannot be evaluated. `families`: names of all that the rules read, ascending.
    """

    def __init__(self, chains: RuleVersions, offset: int = 0) -> None:
        self.offset = offset
        # A rule that can never call for an alert is only in `all`, so that ticks skip it.
        self.all = {
            rule_id: VersionedRule(rule_id, versions) for rule_id, versions in chains.items()
        }
        named = {rule_id: rule for rule_id, rule in self.all.items() if rule.families}
        self.rules = tuple(named[rule_id] for rule_id in _evaluation_order(named))
        self.families = tuple(sorted({name for rule in self.rules for name in rule.families}))
        self._places = {rule.rule_id: place for place, rule in enumerate(self.rules)}
        self._dependencies: dict[Hashable, Sequence[VersionedRule]] = {}
        # Readings by span and by rule id.
        self._readings: dict[WindowSpan, dict[str, Mapping[Hashable, VersionReading]]] = {}

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
            others = self.find_dependencies(current, current.split(span).unless)
            if missing := [other for other in others if other.rule_id not in known]:
                left += missing
                continue
            left.pop()
            if current.rule_id not in known:
                yield current

    def readings(self, rule: VersionedRule, span: WindowSpan) -> Iterable[VersionReading]:
        """What the rule and all that it waits for read to evaluate the span, each thing once."""
        if span not in self._readings and len(self._readings) >= _CACHE_SIZE:
            self._readings = {}
        # Cached by span: stores of one zone have the same days.
        known = self._readings.setdefault(span, {})
        for waited in self.iter_dependencies(rule, span, known):
            split, found = waited.split(span), dict[Hashable, VersionReading]()
            for reading in split.readings:
                names = (metric.entry.id for metric in reading.metrics.all)
                found[_baseline_name(reading.rule), *names] = reading
            for other in self.find_dependencies(waited, split.unless):
                found.update(known[other.rule_id])
            known[waited.rule_id] = found
        return known[rule.rule_id].values()

    @cached_property
    def mandatory_stores(self) -> Mapping[str, frozenset[str]]:
        """The stores by family that should send data, because silence rules in force name them."""
        found: dict[str, frozenset[str]] = defaultdict(frozenset)
        chains = (rule.versions for rule in self.rules if not rule.versions[-1].retired)
        for rule in (version.rule for versions in chains for version in versions):
            if rule.family and rule.kind == "silence" and isinstance(rule.stores, tuple):
                found[rule.family] = found[rule.family].union(rule.stores)
        return found


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
