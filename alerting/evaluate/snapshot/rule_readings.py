"""What a version of a rule reads: its stores, its metrics, and the usual values of them."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple, Protocol

import structlog

from alerting.rules.rule import EVALUATED_KINDS, AgainstBaseline, InGroup, Rule, RuleVersion
from serving.metrics import catalogue
from serving.metrics.catalogue import Metric
from serving.questions.stores import Store
from tally.alerts.baseline import BaselineName, WindowBaseline
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
    condition = rule.condition
    baseline = condition.baseline if isinstance(condition, AgainstBaseline) else None
    main = rule.kind, rule.metric or rule.family, rule.delay, baseline
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


def find_mandatory_stores(versions: Iterable[RuleVersion]) -> dict[str, frozenset[str]]:
    """The stores by family that should send data, because a silence rule names them."""
    found: dict[str, frozenset[str]] = {}
    for version in versions:
        family, stores = version.rule.family, version.rule.stores
        if family and isinstance(stores, tuple) and has_store_list(version.rule):
            found[family] = found.get(family, frozenset()).union(stores)
    return found


# Not a tuple: a tuple of the same fields could equal the key of another kind of reading.
@dataclass(frozen=True)
class BaselineRequest:
    """The windows of one local day of a store whose usual values of a metric are wanted.

    `start`: the start of the day, ms since 1970 (UTC).
    """

    metric: str
    store_id: str
    start: int
    baseline: BaselineName


# The usual values by the start of the window, ms since 1970 (UTC).
BaselineWindows = Mapping[int, WindowBaseline]


class BaselineSource(Protocol):
    """A source of usual values."""

    async def read(
        self, requests: Sequence[BaselineRequest]
    ) -> Mapping[BaselineRequest, BaselineWindows]:
        """The usual values by day and window; windows without a known value are absent.

        Raises ViewsUnreachable when a read fails.
        """
        ...


def baseline_request(rule: Rule, store_id: str, start: int) -> BaselineRequest | None:
    """The key of the usual values that the rule needs on the local day beginning at `start`.

    `start`: ms since 1970 (UTC). None for a rule without a baseline.
    """
    if not isinstance(rule.condition, AgainstBaseline) or rule.metric is None:
        return None
    return BaselineRequest(rule.metric, store_id, start, rule.condition.baseline)
