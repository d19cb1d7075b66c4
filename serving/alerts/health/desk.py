"""Whether rules can be judged: store by store for one rule, and as counts for all rules."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from serving.alerts.evaluator.calendar import StoreCalendarDays, start_of_window
from serving.alerts.evaluator.moment import ViewsMoment
from serving.alerts.evaluator.rule_stores import is_of
from serving.alerts.evaluator.stores import ActiveStores
from serving.alerts.evaluator.usual_days import UsualDays
from serving.alerts.evaluator.version_metrics import metrics_of
from serving.alerts.gauges import AlertFacts
from serving.alerts.health.reasons import UnjudgedReason
from serving.alerts.health.store import (
    CheckedRule,
    JudgedPartition,
    SenderRead,
    StoreHealth,
    of_partition,
    reasons_of_day,
)
from serving.alerts.simulation.desk import KnownRules
from serving.merge.views import ViewReader
from serving.query.stores import StoreRegistry
from tally.alerts.rule import RuleVersion, version_at
from tally.partitions import partition_of
from tally.settings import Settings
from tally.windows import WINDOW_MILLIS

# Stores on one page; each of them is read from the tables.
MOST_STORES = 100
# How many local days are searched for the begin of the time in which a rule is not judged.
MOST_DAYS, MOST_DAYS_OF_STOCK = 14, 2
# Each rule is a label of a gauge; only the first rules by id, up to this number, are counted.
MOST_RULES = 200


class HealthPage(NamedTuple):
    """Some stores of a rule, ascending. `after`: the last of them if there are more.

    `version`: the version in force now; None, and no stores, if there is none or it is retired.
    """

    version: RuleVersion | None
    stores: tuple[StoreHealth, ...]
    after: str | None = None


class _HealthReading(NamedTuple):
    """What one request reads once and uses to judge all its stores.

    `now`: milliseconds since 1970 (UTC).
    """

    moment: ViewsMoment
    active: ActiveStores
    states: Mapping[int, JudgedPartition]
    now: int


@dataclass
class RuleHealthDesk:
    """Reads the views as the evaluator does; `now`: milliseconds since 1970 (UTC).

    `facts`: the ticks in the brokers, and how far they were judged.
    """

    known: KnownRules
    facts: Callable[[], AlertFacts]
    views: ViewReader
    settings: Settings
    now: Callable[[], int]
    _turn: asyncio.Semaphore = field(default_factory=asyncio.Semaphore, init=False)

    def __post_init__(self) -> None:
        self._registry = StoreRegistry.load(self.settings)
        self._usual = UsualDays(self.views, self._registry, self.settings)

    async def page(
        self, rule_id: str, store_ids: Collection[str], after: str, limit: int
    ) -> HealthPage:
        """The health of the named stores that the rule covers, after the store `after`.

        Raises UnknownName, ViewsUnreachable.
        """
        chain = await self.known.versions(rule_id)
        now = self.now()
        version = version_at(chain, start_of_window(now))
        if version is None or version.retired:
            return HealthPage(None, ())
        ids = self._stores_of_rule(version, store_ids, now)
        waiting = [store_id for store_id in ids if store_id > after]
        page = waiting[: min(limit, MOST_STORES)]
        more = page[-1] if len(waiting) > len(page) else None
        metrics = metrics_of(version.rule)
        if metrics is None:
            return HealthPage(version, _catalogue(version, page), more)
        checked = CheckedRule(version, metrics)
        # One page at a time: each costs CPU time and reads from the tables.
        async with self._turn:
            read = await self._begin([checked])
            stores = [await self._health(checked, store_id, read) for store_id in page]
        return HealthPage(version, tuple(stores), more)

    async def counts(self, store_ids: Sequence[str]) -> Counter[tuple[str, UnjudgedReason]]:
        """The number of stores in which a rule cannot be judged, by rule and reason.

        At most MOST_RULES rules are counted. Raises ViewsUnreachable.
        """
        chains = (await self.known.read()).chains
        now = self.now()
        found: Counter[tuple[str, UnjudgedReason]] = Counter()
        checked: list[CheckedRule] = []
        ordered = sorted(chains.items())
        for _, chain in ordered[:MOST_RULES]:
            version = version_at(chain, start_of_window(now))
            metrics = metrics_of(version.rule) if version else None
            if version is None or version.retired:
                continue
            if metrics is None:
                count = len(self._stores_of_rule(version, store_ids, now))
                found[version.rule.rule_id, "catalogue"] += count
            else:
                checked.append(CheckedRule(version, metrics))
        async with self._turn:
            read = await self._begin(checked)
            # Store by store, so that rules share what they read of it.
            for store_id in store_ids:
                for rule in checked:
                    if not self._stores_of_rule(rule.version, [store_id], now):
                        continue
                    # One day is enough: a count does not need the begin.
                    health = await self._health(rule, store_id, read, most_days=1)
                    if health.reason is not None:
                        found[rule.version.rule.rule_id, health.reason] += 1
                read.moment.forget([store_id])
        return found

    async def _begin(self, checked: Sequence[CheckedRule]) -> _HealthReading:
        moment = ViewsMoment(self.views, self._registry, self.settings, self._usual)
        active = ActiveStores(self.views, self.settings.partitions)
        await active.read({name for rule in checked for name in rule.metrics.families})
        # In a thread, because the first call waits for the brokers.
        facts = await asyncio.to_thread(self.facts)
        states = {}
        for number, tick in facts.ticks.items():
            # A partition that was never judged has no state.
            if number in facts.judged:
                states[number] = JudgedPartition(tick, facts.judged[number])
        return _HealthReading(moment, active, states, self.now())

    def _stores_of_rule(
        self,
        version: RuleVersion,
        named: Iterable[str],
        now: int,
    ) -> list[str]:
        """The named stores that the rule covers today, ascending."""
        found = []
        for store_id in sorted(named):
            store = self._registry.store(store_id)
            # A store may enter and leave a group of the stores file.
            today = StoreCalendarDays(store).date(now)
            if is_of(version.rule, store, today):
                found.append(store_id)
        return found

    async def _health(
        self, checked: CheckedRule, store_id: str, read: _HealthReading, most_days: int = MOST_DAYS
    ) -> StoreHealth:
        number = partition_of(store_id, self.settings.partitions)
        senders = read.active.of(number)
        senders_by_family = [senders.get(name, {}) for name in checked.metrics.families]
        # A rule of two families needs data of both of them.
        if any(store_id not in first_days for first_days in senders_by_family):
            return StoreHealth(store_id, "never_sent")
        first_sent = [first_days[store_id] for first_days in senders_by_family]
        state = read.states.get(number)
        if state is None:
            return StoreHealth(store_id, "not_evaluated")
        if found := of_partition(checked, store_id, state, read.now):
            return found
        # The stock of an article is read since its last counts, and each day repeats that.
        if checked.metrics.metric.stock is not None:
            most_days = min(most_days, MOST_DAYS_OF_STOCK)
        sender = SenderRead(store_id, max(first_sent), read.moment, state)
        return await _window_health(checked, sender, most_days)


async def _window_health(checked: CheckedRule, read: SenderRead, most_days: int) -> StoreHealth:
    """The health by the closed windows, from the newest back to one that is judged."""
    days = read.moment.days(read.store_id)
    end = checked.closed(read.state.tick).closed
    newest: UnjudgedReason | None = None
    since: int | None = None
    for _ in range(most_days):
        span = days.day(end - WINDOW_MILLIS).cut(end)
        # Windows before the version in force belong to earlier versions.
        if span.end <= checked.version.effective_from:
            return StoreHealth(read.store_id, newest, since)
        await read.moment.read(checked.wanted(read.store_id, span))
        for window, reason in await asyncio.to_thread(reasons_of_day, checked, read, span):
            if reason is None or window < checked.version.effective_from:
                return StoreHealth(read.store_id, newest, since)
            newest, since = newest or reason, window
        end = span.start
    return StoreHealth(read.store_id, newest, since, is_earlier=newest is not None)


def _catalogue(version: RuleVersion, store_ids: Sequence[str]) -> tuple[StoreHealth, ...]:
    since = version.effective_from
    return tuple(StoreHealth(store_id, "catalogue", since) for store_id in store_ids)
