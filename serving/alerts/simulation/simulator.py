"""A rule over days that have been, store after store: what the evaluator would have told.

It judges by the evaluator's own reading, verdicts and folds, and never speaks to its topics.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import NamedTuple

from msgspec import structs

from serving.alerts.evaluator.calendar import WindowSpan, utc_span
from serving.alerts.evaluator.judged_rules import JudgedRule, is_of
from serving.alerts.evaluator.memory import PartitionMemory
from serving.alerts.evaluator.moment import FamilyWindowsOf, ViewsMoment
from serving.alerts.evaluator.partition import DAY_MILLIS
from serving.alerts.evaluator.pointers import judged_days, moved
from serving.alerts.evaluator.scope import stores_of
from serving.alerts.evaluator.stores import ActiveStores
from serving.alerts.simulation.basis import SimulationBasis
from serving.alerts.simulation.store import (
    LEADS,
    SimulatedStore,
    StoreReading,
    StoreSimulation,
)
from serving.alerts.simulation.told import told_alerts
from serving.merge.views import ViewReader
from serving.query.stores import StoreRegistry
from tally.alerts.simulated import ToldComparison, compared
from tally.instants import from_millis
from tally.partitions import partition_of
from tally.settings import Settings

# Days of stores on one page, at least one store: some seconds of the processor.
MOST_STORE_DAYS = 400
# Days before the span; as told, there is the rule's first version to begin at.
_MOST_LEAD, _MOST_LEAD_AS_TOLD = 32, LEADS[-1]
_ONE_DAY = timedelta(days=1)


@dataclass(frozen=True)
class SimulationQuestion:
    """What is asked, of windows in milliseconds since 1970 (UTC).

    `stores`: None for all of the rule's. `with_values`: the number of each window too.
    """

    basis: SimulationBasis
    span: WindowSpan
    stores: frozenset[str] | None = None
    with_values: bool = False

    def asks_for(self, store_id: str) -> bool:
        """Whether the store is asked for, be it of the rule or not."""
        return self.stores is None or store_id in self.stores


class SimulatedPage(NamedTuple):
    """Some stores by their ids, ascending; `after`: the last of them if there are more.

    `told`: by store how it differs from what was told, where that was asked. `unjudged`: UTC days
    of which another generation serves than the evaluators have judged, so that they say nothing.
    """

    stores: tuple[SimulatedStore, ...]
    told: Mapping[str, ToldComparison]
    unjudged: tuple[date, ...]
    after: str | None


class _JudgedStore(NamedTuple):
    store_id: str
    memory: PartitionMemory
    found: SimulatedStore


class Simulator:
    """Simulates over one set of views, one question at a time."""

    def __init__(self, views: ViewReader, registry: StoreRegistry, settings: Settings) -> None:
        self._views, self._registry, self._settings = views, registry, settings
        # It is work of the processor, whoever asks: others want their answers meanwhile.
        self._one = asyncio.Semaphore()

    async def page(self, asked: SimulationQuestion, after: str) -> SimulatedPage:
        """The stores behind one, as many as a page holds. Raises ViewsUnreachable."""
        rule = asked.basis.rule
        # A rule that nothing can judge calls for nothing, and is asked of no table.
        if rule is None:
            return SimulatedPage((), {}, (), None)
        async with self._one:
            return await self._page(asked, rule, after)

    async def _page(self, asked: SimulationQuestion, rule: JudgedRule, after: str) -> SimulatedPage:
        # One for the page: two stores are not judged by two generations of a day.
        moment = ViewsMoment(self._views, self._registry, self._settings)
        active = ActiveStores(self._views, self._settings.partitions)
        await active.read(asked.basis.rules.families)
        waiting = [one for one in self._store_ids(asked, rule, active) if one > after]
        most = max(1, MOST_STORE_DAYS * DAY_MILLIS // (asked.span.end - asked.span.start))
        page = waiting[:most]
        judged = [await self._judged(asked, rule, one, (moment, active)) for one in page]
        more = page[-1] if len(waiting) > len(page) else None
        if asked.basis.evaluated is None or not judged:
            return SimulatedPage(tuple(one.found for one in judged), {}, (), more)
        return (await self._against(asked, judged, moment))._replace(after=more)

    def _store_ids(
        self, asked: SimulationQuestion, rule: JudgedRule, active: ActiveStores
    ) -> list[str]:
        """The stores of the rule that are asked for, ascending."""
        found: set[str] = set()
        # By partition, as an evaluator knows them: all partitions together are all stores.
        for number in range(self._settings.partitions):
            found |= stores_of(rule, active.of(number))
        return sorted(filter(_IsOf(asked, rule, self._registry), found))

    async def _judged(
        self,
        asked: SimulationQuestion,
        rule: JudgedRule,
        store_id: str,
        read: tuple[ViewsMoment, ActiveStores],
    ) -> _JudgedStore:
        moment, active = read
        number = partition_of(store_id, self._settings.partitions)
        of_partition = active.of(number)
        memory = asked.basis.memory(number, of_partition)
        first_days = {
            family: days[store_id] for family, days in of_partition.items() if store_id in days
        }
        read_now = _read_by(moment, asyncio.get_running_loop())
        reading = StoreReading(moment, read_now, first_days)
        store = StoreSimulation(store_id, asked.basis.rules, memory, reading)
        # Most of it at once; how far back there is more to read is seen when it is judged.
        await moment.read(store.wanted(rule, asked.span))
        lead = _MOST_LEAD if asked.basis.evaluated is None else _MOST_LEAD_AS_TOLD
        found = await asyncio.to_thread(store.simulated, rule, asked.span, lead)
        if asked.with_values:
            values = await asyncio.to_thread(store.values, rule, asked.span)
            found = found._replace(values=values)
        return _JudgedStore(store_id, memory, found)

    async def _against(
        self, asked: SimulationQuestion, judged: Sequence[_JudgedStore], moment: ViewsMoment
    ) -> SimulatedPage:
        ids = [one.store_id for one in judged]
        since = min(one.found.since for one in judged)
        # Nothing is raised before its window has begun; and much of it long after.
        days = from_millis(since).date(), from_millis(asked.basis.now).date() + _ONE_DAY
        told = await told_alerts(self._views, asked.basis.rule_id, ids, days)
        found: dict[str, ToldComparison] = {}
        stores, unjudged = [], set[date]()
        for one in judged:
            left = await self._unjudged(asked, one, moment)
            span = one.found.span
            # What the evaluator has not come to yet is no difference.
            by_day = {window: from_millis(window).date() for window in span.settled}
            settled = frozenset(window for window, day in by_day.items() if day not in left)
            unjudged |= {by_day[one] for one in span.settled - settled if one in asked.span.windows}
            span = structs.replace(span, settled=settled)
            found[one.store_id] = compared(span, told.get(one.store_id, ()))
            stores.append(one.found._replace(span=span))
        return SimulatedPage(tuple(stores), found, tuple(sorted(unjudged)), None)

    async def _unjudged(
        self, asked: SimulationQuestion, one: _JudgedStore, moment: ViewsMoment
    ) -> set[date]:
        """UTC days that the evaluator of the store's partition has still to look at."""
        until = min(asked.span.end, asked.basis.until(one.memory.number))
        days = judged_days(WindowSpan(one.found.since, until))
        found: set[date] = set()
        for family in asked.basis.rules.families:
            since = asked.basis.rules.since(family)
            judged = [day for day in days if utc_span(day).end > since]
            served = await moment.published(family, judged)
            found |= {*moved(one.memory, family, judged, served).days}
        return found


class _IsOf:
    """Whether a store is asked for, and some version of the rule is about it on some day."""

    def __init__(
        self, asked: SimulationQuestion, rule: JudgedRule, registry: StoreRegistry
    ) -> None:
        self._asked, self._rule, self._registry = asked, rule, registry
        self._days = [*judged_days(asked.span)]

    def __call__(self, store_id: str) -> bool:
        store = self._registry.store(store_id)
        return self._asked.asks_for(store_id) and any(
            is_of(one.rule, store, day) for one in self._rule.versions for day in self._days
        )


def _read_by(
    moment: ViewsMoment, loop: asyncio.AbstractEventLoop
) -> Callable[[Sequence[FamilyWindowsOf]], None]:
    """Reads from a thread, by the loop that the connection belongs to."""

    def read_now(wanted: Sequence[FamilyWindowsOf]) -> None:
        if missing := moment.missing(wanted):
            asyncio.run_coroutine_threadsafe(moment.read(missing), loop).result()

    return read_now
