"""Answers requests to simulate a rule over some days, as if it had always been in force.

It runs the evaluator itself over an empty memory, and never writes to its topics.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import NamedTuple

from msgspec import structs

from alerting.evaluate.scope.calendar import WindowSpan, has_opening_hours
from alerting.evaluate.scope.rule_set import RuleSet, RuleVersions, applies_to
from alerting.evaluate.scope.scope import all_stores, candidate_stores
from alerting.evaluate.snapshot.baseline_days import BaselineCache
from alerting.evaluate.snapshot.snapshot_reader import ReadRequest, SnapshotReader
from alerting.evaluate.verdicts.verdicts import ReadNow
from alerting.queries.known_rules import RuleRepository
from alerting.rules.rule import EVALUATED_KINDS, Rule, RuleVersion
from alerting.rules.rule_file import find_contradictions
from alerting.rules.topic import RuleReader, write_rules
from alerting.simulate.store import (
    MAX_LEAD_DAYS_ARTICLES,
    SimulatedRules,
    SimulatedStore,
    StoreSimulation,
    StoreSource,
)
from runtime.http.work_pools import SIMULATIONS
from serving.questions.known_stores import ActiveStores
from serving.questions.stores import StoreRegistry
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tally.errors import BadQuery, SimulationsBusy
from tally.time.instants import DAY_MILLIS

# The most store days on one page, which has at least one store: some seconds of CPU time.
MAX_STORE_DAYS = 400
# The same for rules of articles, with the days before the span: each day is read from the last
# counts on, for thousands of articles. 5,000 of them and a week before take a second of CPU time.
MAX_SHELF_DAYS = 60
# All days of a store come on one page; with hundreds of articles that is a minute of CPU time.
MAX_ARTICLE_DAYS = 100
MAX_WAITING = 4
_ALWAYS = 0


class SimulationRequest(NamedTuple):
    """A request to simulate a rule on a span of windows, in milliseconds since 1970 (UTC).

    `draft`: a rule that replaces all its versions.
    """

    rule_id: str
    span: WindowSpan
    stores: frozenset[str] | None = None
    draft: Rule | None = None
    with_values: bool = False


class SimulatedPage(NamedTuple):
    """Some stores by their ids, ascending; `after`: the last of them if there are more."""

    stores: tuple[SimulatedStore, ...]
    after: str | None


class SimulationQueue:
    """Hands out turns in the order in which they were asked for; few may wait."""

    def __init__(self) -> None:
        # Simulations are CPU work: one at a time leaves time for the other requests.
        self._turn_lock = asyncio.Semaphore()
        self._waiting = 0

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[None]:
        """Run one simulation alone. Raises SimulationsBusy when MAX_WAITING wait already."""
        if self._waiting >= MAX_WAITING:
            raise SimulationsBusy(f"{MAX_WAITING} simulations wait already; ask again later")
        self._waiting += 1
        try:
            await self._turn_lock.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._turn_lock.release()


class _SimulationQuery(NamedTuple):
    """A request and the rules that it needs; `now`: milliseconds since 1970 (UTC)."""

    request: SimulationRequest
    rules: SimulatedRules
    now: int


@dataclass
class SimulationService:
    """Runs simulations on request over one set of views; `now`: milliseconds since 1970 (UTC)."""

    rules: RuleRepository
    views: ViewReader
    settings: Settings
    now: Callable[[], int] = lambda: int(time.time() * 1000)

    def __post_init__(self) -> None:
        self._registry = StoreRegistry.load(self.settings)
        self._baselines = BaselineCache(self.views, self._registry, self.settings)
        self._queue = SimulationQueue()

    @classmethod
    def from_settings(cls, settings: Settings, views: ViewReader) -> "SimulationService":
        """Build the service over the topics of the brokers. Raises BadSettings."""
        rules = RuleRepository(RuleReader(settings), partial(write_rules, settings))
        return cls(rules, views, settings)

    async def simulate_page(self, request: SimulationRequest, after: str = "") -> SimulatedPage:
        """Simulate the stores after the store `after`, as many as fit on a page.

        Raises UnknownName, BadQuery, ViewsUnreachable, and SimulationsBusy when too many wait.
        """
        async with self._queue.acquire():
            return await self._simulate_page(await self._build_query(request), after)

    async def _simulate_page(self, query: _SimulationQuery, after: str) -> SimulatedPage:
        # The stores of a page share one snapshot, so that all use the same generation of a day.
        reads = self._baselines.read
        snapshot = SnapshotReader(self.views, self._registry, self.settings, reads)
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
        self, query: _SimulationQuery, snapshot: SnapshotReader, read_now: ReadNow
    ) -> dict[str, StoreSource]:
        """The requested stores that the rule covers, by id."""
        active = ActiveStores(self.views, self.settings.partitions)
        await active.read(query.rules.together.families)
        mandatory, found = query.rules.together.mandatory_stores, dict[str, StoreSource]()

        def opens(store_id: str) -> bool:
            """Whether the stores file has the store's opening hours on a day of the span."""
            days = snapshot.days(store_id)
            starts = days.day_starts(query.request.span)
            return any(has_opening_hours(days, days.date(start)) for start in starts)

        # An evaluator knows the stores of its partition; all partitions together are all stores.
        for number in range(self.settings.partitions):
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

    def _is_covered(self, query: _SimulationQuery, store_id: str) -> bool:
        """Whether the store is requested, and a version of the rule covers it on some day."""
        store = self._registry.store(store_id)
        return (query.request.stores is None or store_id in query.request.stores) and any(
            applies_to(version.rule, store, day)
            for version in query.rules.rule.versions
            for day in query.request.span.utc_days
        )

    async def _simulate_store(self, query: _SimulationQuery, source: StoreSource) -> SimulatedStore:
        simulation = StoreSimulation(query.rules, source, query.request.span, query.now)
        # Most rows are read at once; only the evaluation shows how much further back to read.
        await source.snapshot.read(simulation.list_requests())
        return await SIMULATIONS.run(simulation.simulate, query.request.with_values)

    async def _build_query(self, request: SimulationRequest) -> _SimulationQuery:
        read = await self.rules.read()
        chains: Mapping[str, Sequence[RuleVersion]] = read.versions
        if request.draft is not None:
            drafts = {request.draft.rule_id: request.draft}
            # A rule that could not be applied beside those in force.
            contradictions = find_contradictions(drafts, read.active_rules())
            if found := contradictions.get(request.draft.rule_id):
                raise BadQuery("rule", "; ".join(f"rule: {problem}" for problem in found))
            chains = _replace_rule(chains, request.draft)
        elif request.rule_id not in chains:
            # It raises the same error as the other endpoints.
            await self.rules.versions(request.rule_id)
        together = RuleSet(_select_rules(chains, request.rule_id))
        rule = next((rule for rule in together.rules if rule.rule_id == request.rule_id), None)
        if rule is None:
            raise BadQuery(
                "rule",
                f"rule: {request.rule_id} is not judged; judged are"
                f" {' and '.join(EVALUATED_KINDS)} rules of whole stores",
            )
        rules, millis = SimulatedRules(rule, together), request.span.end - request.span.start
        if rules.is_per_article and millis > MAX_ARTICLE_DAYS * DAY_MILLIS:
            raise BadQuery(
                "to",
                f"to: at most {MAX_ARTICLE_DAYS} days of a rule that looks at articles one by one,"
                " for each is reckoned from the last counts on; ask for fewer",
            )
        return _SimulationQuery(request, rules, self.now())


def _max_page_stores(query: _SimulationQuery) -> int:
    days = (query.request.span.end - query.request.span.start) / DAY_MILLIS
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


def _replace_rule(chains: RuleVersions, rule: Rule) -> RuleVersions:
    """The rules with this one in the place of all its versions."""
    versions = chains.get(rule.rule_id, ())
    # It gets a number of its own, because no alert was sent under this version.
    number = versions[-1].version + 1 if versions else 1
    draft = RuleVersion(rule=rule, version=number, effective_from=_ALWAYS)
    return {**chains, rule.rule_id: (draft,)}


def _select_rules(chains: RuleVersions, rule_id: str) -> RuleVersions:
    """The rule and all rules that it waits for, as if their first versions had always been so."""
    # All versions are searched: an old one may wait for a rule that the newest does not name.
    found: dict[str, Sequence[RuleVersion]] = {}
    waiting = [rule_id]
    while waiting:
        name = waiting.pop()
        if name in chains and name not in found:
            first, *later = chains[name]
            # A version in force from tomorrow would evaluate no window of yesterday.
            found[name] = (structs.replace(first, effective_from=_ALWAYS), *later)
            waiting += [other for version in chains[name] for other in version.rule.unless]
    return found
