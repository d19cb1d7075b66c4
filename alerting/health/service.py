"""Whether rules can be evaluated, store by store, and how many cannot; the gauge of the latter.

The count is repeated every few minutes in the background.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import structlog

from alerting.evaluate.scope.calendar import StoreCalendarDays, start_of_window
from alerting.evaluate.scope.rule_set import applies_to, resolve_metrics
from alerting.evaluate.snapshot.baseline_days import BaselineCache
from alerting.evaluate.snapshot.snapshot_reader import SnapshotReader, list_requests
from alerting.health.store import (
    EvaluatedPartition,
    HealthTarget,
    RuleInForce,
    StoreHealth,
    UnevaluatedReason,
    find_day_reasons,
    partition_health,
)
from alerting.health.watch import AlertFacts, AlertGauge
from alerting.queries.known_rules import RuleRepository
from alerting.rules.rule import RuleVersion, version_at
from runtime.http.exposition import MetricSample
from serving.questions.known_stores import ActiveStores, KnownStores
from serving.questions.stores import StoreRegistry
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tally.errors import ViewsUnreachable
from tally.events.identity import partition_number
from tally.time.windows import WINDOW_MILLIS

# Stores on one page; each of them is read from the tables.
MAX_STORES = 100
# Each count reads the newest day of every store.
COUNT_SECONDS = 300.0
NAME = "tally_rules_unjudged"
DESCRIPTION = "Stores in which a rule cannot be judged, by reason"
# How many local days are searched for the begin of the time in which a rule is not evaluated.
MAX_DAYS, MAX_STOCK_DAYS = 14, 2
# Each rule is a label of a gauge; only the first rules by id, up to this number, are counted.
MAX_RULES = 200

log = structlog.get_logger()


class HealthPage(NamedTuple):
    """Some stores of a rule, ascending. `after`: the last of them if there are more.

    `version`: the version in force now; None, and no stores, if there is none or it is retired.
    """

    version: RuleVersion | None
    stores: tuple[StoreHealth, ...]
    after: str | None = None


class _HealthReading(NamedTuple):
    """What one request reads once for all its stores; `now`: milliseconds since 1970 (UTC)."""

    snapshot: SnapshotReader
    active: ActiveStores
    partitions: Mapping[int, EvaluatedPartition]
    now: int


@dataclass
class RuleHealthService:
    """Reads the views as the evaluator does; `now`: milliseconds since 1970 (UTC).

    `facts`: the ticks in the brokers, and how far they were evaluated.
    """

    rules: RuleRepository
    facts: Callable[[], AlertFacts]
    views: ViewReader
    settings: Settings
    now: Callable[[], int]
    _turn: asyncio.Semaphore = field(default_factory=asyncio.Semaphore, init=False)

    def __post_init__(self) -> None:
        self._registry = StoreRegistry.load(self.settings)
        self._baselines = BaselineCache(self.views, self._registry, self.settings)

    async def read_page(
        self, rule_id: str, store_ids: Collection[str], after: str, limit: int
    ) -> HealthPage:
        """The health of the named stores after `after`. Raises UnknownName, ViewsUnreachable."""
        chain = await self.rules.versions(rule_id)
        now = self.now()
        version = version_at(chain, start_of_window(now))
        if version is None or version.retired:
            return HealthPage(None, ())
        ids = sorted(store_id for store_id in store_ids if store_id > after)
        waiting = [store_id for store_id in ids if self._covers(version, store_id, now)]
        page = waiting[: min(limit, MAX_STORES)]
        more = page[-1] if len(waiting) > len(page) else None
        metrics = resolve_metrics(version.rule)
        if metrics is None:
            since = version.effective_from
            unknown = (StoreHealth(store_id, "catalogue", since) for store_id in page)
            return HealthPage(version, tuple(unknown), more)
        checked = RuleInForce(version, metrics)
        # One page at a time: each costs CPU time and reads from the tables.
        async with self._turn:
            read = await self._begin([checked])
            stores = [await self._store_health(checked, store_id, read) for store_id in page]
        return HealthPage(version, tuple(stores), more)

    async def count_unevaluated(
        self, store_ids: Sequence[str]
    ) -> Counter[tuple[str, UnevaluatedReason]]:
        """The number of stores in which a rule cannot be evaluated, by rule and reason.

        At most MAX_RULES rules are counted. Raises ViewsUnreachable.
        """
        chains = (await self.rules.read()).versions
        now = self.now()
        found: Counter[tuple[str, UnevaluatedReason]] = Counter()
        checked: list[RuleInForce] = []
        for _, chain in sorted(chains.items())[:MAX_RULES]:
            version = version_at(chain, start_of_window(now))
            metrics = resolve_metrics(version.rule) if version else None
            if version is None or version.retired:
                continue
            if metrics is None:
                count = sum(self._covers(version, store_id, now) for store_id in store_ids)
                found[version.rule.rule_id, "catalogue"] += count
            else:
                checked.append(RuleInForce(version, metrics))
        async with self._turn:
            read = await self._begin(checked)
            # Store by store, so that rules share what they read of it.
            for store_id in store_ids:
                for rule in checked:
                    if not self._covers(rule.version, store_id, now):
                        continue
                    # One day is enough: a count does not need the begin.
                    health = await self._store_health(rule, store_id, read, most_days=1)
                    if health.reason is not None:
                        found[rule.version.rule.rule_id, health.reason] += 1
                read.snapshot.drop_stores([store_id])
        return found

    async def _begin(self, checked: Sequence[RuleInForce]) -> _HealthReading:
        snapshot = SnapshotReader(self.views, self._registry, self.settings, self._baselines.read)
        active = ActiveStores(self.views, self.settings.partitions)
        await active.read({name for rule in checked for name in rule.metrics.families})
        # In a thread, because the first call waits for the brokers.
        facts = await asyncio.to_thread(self.facts)
        # A partition that was never evaluated has no state.
        states = {
            number: EvaluatedPartition(tick, facts.evaluated_at[number])
            for number, tick in facts.ticks.items()
            if number in facts.evaluated_at
        }
        return _HealthReading(snapshot, active, states, self.now())

    def _covers(self, version: RuleVersion, store_id: str, now: int) -> bool:
        store = self._registry.store(store_id)
        # By today: a store may enter and leave a group of the stores file.
        return applies_to(version.rule, store, StoreCalendarDays(store).date(now))

    async def _store_health(
        self, checked: RuleInForce, store_id: str, read: _HealthReading, most_days: int = MAX_DAYS
    ) -> StoreHealth:
        number = partition_number(store_id, self.settings.partitions)
        senders = read.active.partition_stores(number)
        of_families = [senders.get(name, {}) for name in checked.metrics.families]
        first_days = [of_family.get(store_id) for of_family in of_families]
        first_sent = [day for day in first_days if day is not None]
        # A rule of two families needs data of both of them.
        if len(first_sent) < len(first_days):
            return StoreHealth(store_id, "never_sent")
        state = read.partitions.get(number)
        if state is None:
            return StoreHealth(store_id, "not_evaluated")
        if found := partition_health(checked, store_id, state, read.now):
            return found
        # The stock of an article is read since its last counts, and each day repeats that.
        if checked.metrics.metric.stock is not None:
            most_days = min(most_days, MAX_STOCK_DAYS)
        sender = HealthTarget(store_id, max(first_sent), read.snapshot, state)
        return await _window_health(checked, sender, most_days)


async def _window_health(checked: RuleInForce, read: HealthTarget, most_days: int) -> StoreHealth:
    """The health by the closed windows, from the newest back to one that is evaluated."""
    days = read.snapshot.days(read.store_id)
    end = checked.evaluation_tick(read.partition.tick).closed
    newest: UnevaluatedReason | None = None
    since: int | None = None
    for _ in range(most_days):
        span = days.day(end - WINDOW_MILLIS).cut_at(end)
        # Windows before the version in force belong to earlier versions.
        if span.end <= checked.version.effective_from:
            return StoreHealth(read.store_id, newest, since)
        requests = list_requests(checked.version.rule, checked.metrics, read.store_id, span)
        await read.snapshot.read(requests)
        for window, reason in await asyncio.to_thread(find_day_reasons, checked, read, span):
            if reason is None or window < checked.version.effective_from:
                return StoreHealth(read.store_id, newest, since)
            newest, since = newest or reason, window
        end = span.start
    return StoreHealth(read.store_id, newest, since, is_earlier=newest is not None)


@dataclass
class UnevaluatedCounter:
    """The last count of stores in which each rule cannot be evaluated, by reason."""

    health: RuleHealthService
    stores: KnownStores
    _samples: Sequence[MetricSample] = ()
    _counting: asyncio.Task[None] | None = field(default=None, init=False)
    _started_at: float = field(default=float("-inf"), init=False)

    def to_text(self) -> str:
        """Prometheus exposition text of the last count; starts the next count when it is due.

        The text is empty until the first count ends. No scrape waits for a count.
        """
        is_running = self._counting is not None and not self._counting.done()
        if not is_running and time.monotonic() - self._started_at >= COUNT_SECONDS:
            self._started_at = time.monotonic()
            self._counting = asyncio.get_running_loop().create_task(self._count())
        return AlertGauge(NAME, DESCRIPTION, self._samples).text

    async def wait_idle(self) -> None:
        """Wait until no count is running."""
        if self._counting is not None:
            await self._counting

    async def _count(self) -> None:
        try:
            found = await self.health.count_unevaluated(await self.stores.all_ids())
        except ViewsUnreachable as error:
            # An old number would look like a current one.
            self._samples = ()
            log.warning("views unreachable", path="/metrics", reason=str(error))
            return
        self._samples = [
            ({"rule": rule_id, "reason": reason}, float(count))
            for (rule_id, reason), count in sorted(found.items())
        ]
