"""Simulates a rule over past days, store by store: the alerts that the evaluator would have sent.

It runs the evaluator itself over an empty memory, and never writes to its topics.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from threading import Event

from alerting.evaluate.scope.pointers import span_utc_days
from alerting.evaluate.scope.scope import candidate_stores
from alerting.evaluate.scope.stores import all_stores
from alerting.evaluate.snapshot.baseline_days import BaselineCache
from alerting.evaluate.snapshot.calendar import WindowSpan, has_opening_hours
from alerting.evaluate.snapshot.rule_readings import applies_to
from alerting.evaluate.snapshot.snapshot_reader import ReadRequest, SnapshotReader
from alerting.evaluate.verdicts.verdicts import ReadNow
from alerting.simulate.findings import SimulatedPage, SimulatedStore
from alerting.simulate.runs import SimulatedRules, StoreSource
from alerting.simulate.store import MAX_LEAD_DAYS_ARTICLES, StoreSimulation
from runtime.http.work_pools import SIMULATIONS
from serving.questions.active_stores import ActiveStores
from serving.questions.stores import StoreRegistry
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tally.time.instants import DAY_MILLIS

# The most store days on one page, which has at least one store: some seconds of CPU time.
MAX_STORE_DAYS = 400
# The same for rules of articles, with the days before the span: each day is read from the last
# counts on, for thousands of articles. 5,000 of them and a week before take a second of CPU time.
MAX_SHELF_DAYS = 60


@dataclass(frozen=True)
class SimulationQuery:
    """A question for the simulator; `span` and `now` are in milliseconds since 1970 (UTC).

    `stores`: None for all stores of the rule. `with_values`: also return each window's number.
    """

    rules: SimulatedRules
    span: WindowSpan
    now: int
    stores: frozenset[str] | None = None
    with_values: bool = False


class Simulator:
    """Simulates over one set of views."""

    def __init__(self, views: ViewReader, registry: StoreRegistry, settings: Settings) -> None:
        self._views, self._registry, self._settings = views, registry, settings
        self._baselines = BaselineCache(views, registry, settings)

    async def simulate_page(self, query: SimulationQuery, after: str) -> SimulatedPage:
        """Simulate the stores after `after`, as many as fit on a page. Raises ViewsUnreachable."""
        # The stores of a page share one snapshot, so that all use the same generation of a day.
        snapshot = SnapshotReader(self._views, self._registry, self._settings, self._baselines)
        stopped = Event()
        read_now = _thread_reader(snapshot, asyncio.get_running_loop(), stopped)
        sources = await self._sources(query, snapshot, read_now)
        waiting = [store_id for store_id in sorted(sources) if store_id > after]
        page = waiting[: _max_page_stores(query)]
        try:
            simulated = [await self._simulate_store(query, sources[name]) for name in page]
        except asyncio.CancelledError:
            # A thread cannot be cancelled: it ends at its next read.
            stopped.set()
            raise
        last = page[-1] if len(waiting) > len(page) else None
        return SimulatedPage(tuple(simulated), last)

    async def _sources(
        self, query: SimulationQuery, snapshot: SnapshotReader, read_now: ReadNow
    ) -> dict[str, StoreSource]:
        """The requested stores that the rule covers, by id."""
        active = ActiveStores(self._views, self._settings.partitions)
        await active.read(query.rules.together.families)
        mandatory, found = query.rules.together.mandatory_stores, dict[str, StoreSource]()

        def opens(store_id: str) -> bool:
            """Whether the stores file has the store's opening hours on a day of the span."""
            days = snapshot.days(store_id)
            starts = days.day_starts(query.span)
            return any(has_opening_hours(days, days.date(start)) for start in starts)

        # An evaluator knows the stores of its partition; all partitions together are all stores.
        for number in range(self._settings.partitions):
            senders = active.partition_stores(number)
            missing = active.missing_stores(number, mandatory, opens)
            for store_id in candidate_stores(query.rules.rule, all_stores(senders, missing)):
                if self._is_covered(query, store_id):
                    first_days = {
                        name: days[store_id] for name, days in senders.items() if store_id in days
                    }
                    silent = frozenset(name for name, ids in missing.items() if store_id in ids)
                    found[store_id] = StoreSource(store_id, snapshot, read_now, first_days, silent)
        return found

    def _is_covered(self, query: SimulationQuery, store_id: str) -> bool:
        """Whether the store is requested, and a version of the rule covers it on some day."""
        store = self._registry.store(store_id)
        return (query.stores is None or store_id in query.stores) and any(
            applies_to(version.rule, store, day)
            for version in query.rules.rule.versions
            for day in span_utc_days(query.span)
        )

    async def _simulate_store(self, query: SimulationQuery, source: StoreSource) -> SimulatedStore:
        simulation = StoreSimulation(query.rules, source, query.span, query.now)
        # Most rows are read at once; only the evaluation shows how much further back to read.
        await source.snapshot.read(simulation.list_requests())
        return await SIMULATIONS.run(simulation.simulate, query.with_values)


def _max_page_stores(query: SimulationQuery) -> int:
    """How many stores fit on a page."""
    days = (query.span.end - query.span.start) / DAY_MILLIS
    if query.rules.is_per_article:
        return max(1, int(MAX_SHELF_DAYS / (days + MAX_LEAD_DAYS_ARTICLES)))
    return max(1, int(MAX_STORE_DAYS / days))


def _thread_reader(
    snapshot: SnapshotReader, loop: asyncio.AbstractEventLoop, stopped: Event
) -> ReadNow:
    """A function that reads from a thread through the connection's event loop, until stopped."""

    def read_now(requests: Sequence[ReadRequest]) -> None:
        """Read the missing readings. Raises CancelledError once stopped."""
        if stopped.is_set():
            raise CancelledError
        if missing := snapshot.missing(requests):
            asyncio.run_coroutine_threadsafe(snapshot.read(missing), loop).result()

    return read_now
