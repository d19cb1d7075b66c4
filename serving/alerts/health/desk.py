"""Whether rules can be judged: of one rule store by store, and of all rules in numbers."""

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
# How many local days are looked at for since when a rule is not judged.
MOST_DAYS, MOST_DAYS_OF_STOCK = 14, 2
# Each is a label of a gauge. Of so many rules, by their ids, the numbers are counted.
MOST_RULES = 200


class HealthPage(NamedTuple):
    """Some stores of a rule, ascending. `after`: the last of them if there are more.

    `version`: the one in force now; None: none is, or it is retired, and there are no stores.
    """

    version: RuleVersion | None
    stores: tuple[StoreHealth, ...]
    after: str | None = None


class _HealthReading(NamedTuple):
    """By what is judged in all stores of one question."""

    moment: ViewsMoment
    active: ActiveStores
    states: Mapping[int, JudgedPartition]
    now: int


@dataclass
class RuleHealthDesk:
    """Looks at the views as the evaluator does; `now`: milliseconds since 1970 (UTC).

    `facts`: what the brokers say of ticks, and of how far they were judged.
    """

    known: KnownRules
    facts: Callable[[], AlertFacts]
    views: ViewReader
    settings: Settings
    now: Callable[[], int]
    _one: asyncio.Semaphore = field(default_factory=asyncio.Semaphore, init=False)

    def __post_init__(self) -> None:
        self._registry = StoreRegistry.load(self.settings)
        self._usual = UsualDays(self.views, self._registry, self.settings)

    async def page(
        self, rule_id: str, store_ids: Collection[str], after: str, limit: int
    ) -> HealthPage:
        """The stores behind one that the rule is about, of those that are named.

        Raises UnknownName, ViewsUnreachable.
        """
        chain = await self.known.versions(rule_id)
        now = self.now()
        version = version_at(chain, start_of_window(now))
        if version is None or version.retired:
            return HealthPage(None, ())
        ids = self._about(version, store_ids, now)
        waiting = [store_id for store_id in ids if store_id > after]
        page = waiting[: min(limit, MOST_STORES)]
        more = page[-1] if len(waiting) > len(page) else None
        metrics = metrics_of(version.rule)
        if metrics is None:
            return HealthPage(version, _catalogue(version, page), more)
        checked = CheckedRule(version, metrics)
        # It is work of the processor and of the tables, whoever asks: one page at a time.
        async with self._one:
            read = await self._begin([checked])
            stores = [await self._health(checked, store_id, read) for store_id in page]
        return HealthPage(version, tuple(stores), more)

    async def counts(self, store_ids: Sequence[str]) -> Counter[tuple[str, UnjudgedReason]]:
        """By rule and reason how many of the stores it cannot be judged in, at most MOST_RULES.

        Raises ViewsUnreachable.
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
                count = len(self._about(version, store_ids, now))
                found[version.rule.rule_id, "catalogue"] += count
            else:
                checked.append(CheckedRule(version, metrics))
        async with self._one:
            read = await self._begin(checked)
            # Store by store, so that rules share what they read of it.
            for store_id in store_ids:
                for rule in checked:
                    if not self._about(rule.version, [store_id], now):
                        continue
                    # For a number nobody has to know since when.
                    health = await self._health(rule, store_id, read, most_days=1)
                    if health.reason is not None:
                        found[rule.version.rule.rule_id, health.reason] += 1
                read.moment.forget([store_id])
        return found

    async def _begin(self, checked: Sequence[CheckedRule]) -> _HealthReading:
        moment = ViewsMoment(self.views, self._registry, self.settings, self._usual)
        active = ActiveStores(self.views, self.settings.partitions)
        await active.read({name for one in checked for name in one.metrics.families})
        # The first look at the brokers is waited for.
        facts = await asyncio.to_thread(self.facts)
        states = {}
        for number, tick in facts.ticks.items():
            # Of a partition that was never judged there is no state.
            if number in facts.judged:
                states[number] = JudgedPartition(tick, facts.judged[number])
        return _HealthReading(moment, active, states, self.now())

    def _about(
        self,
        version: RuleVersion,
        named: Iterable[str],
        now: int,
    ) -> list[str]:
        """Those that the rule is about today, ascending."""
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
        of_families = [senders.get(name, {}) for name in checked.metrics.families]
        # A rule of two families reads both of them or nothing.
        if any(store_id not in first_days for first_days in of_families):
            return StoreHealth(store_id, "never_sent")
        begun = [first_days[store_id] for first_days in of_families]
        state = read.states.get(number)
        if state is None:
            return StoreHealth(store_id, "not_evaluated")
        if found := of_partition(checked, store_id, state, read.now):
            return found
        # What there is of an article is read since the last counts, for each day again.
        if checked.metrics.metric.stock is not None:
            most_days = min(most_days, MOST_DAYS_OF_STOCK)
        sender = SenderRead(store_id, max(begun), read.moment, state)
        return await _of_windows(checked, sender, most_days)


async def _of_windows(checked: CheckedRule, read: SenderRead, most_days: int) -> StoreHealth:
    """What the closed windows say, from the newest back to one that is judged."""
    days = read.moment.days(read.store_id)
    end = checked.closed(read.state.tick).closed
    newest: UnjudgedReason | None = None
    since: int | None = None
    for _ in range(most_days):
        span = days.day(end - WINDOW_MILLIS).cut(end)
        # Windows before the version in force are judged by others.
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
