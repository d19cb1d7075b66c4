"""Simulates a rule over past days, store by store: the alerts that the evaluator would have sent.

It judges with the evaluator's own reading, verdicts and folds, and never writes to its topics.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from itertools import islice
from threading import Event
from typing import NamedTuple

from alerting.evaluate.scope.pointers import find_changed_days, span_utc_days
from alerting.evaluate.scope.rule_set import VersionedRule
from alerting.evaluate.scope.scope import candidate_stores
from alerting.evaluate.scope.stores import (
    ActiveStores,
    HoursLookup,
    all_stores,
    begin_missing_stores,
)
from alerting.evaluate.snapshot.baseline_days import BaselineCache
from alerting.evaluate.snapshot.calendar import WindowSpan, has_opening_hours, utc_span
from alerting.evaluate.snapshot.rule_stores import applies_to
from alerting.evaluate.snapshot.snapshot_reader import ReadRequest, SnapshotReader
from alerting.evaluate.state.memory import PartitionMemory
from alerting.evaluate.verdicts.partition import EVALUATION_MILLIS
from alerting.evaluate.verdicts.verdicts import WHOLE_STORE
from alerting.simulate.basis import SimulationBasis
from alerting.simulate.comparison import AlertComparison, ComparisonSpan, compare_alerts
from alerting.simulate.findings import (
    SimulatedPage,
    SimulatedStore,
    WindowValue,
    days_in_span,
    unsettle_all,
    unsettle_days,
)
from alerting.simulate.folds import LEAD_DAYS, StoreReading
from alerting.simulate.published_alerts import group_by_subject, load_published_alerts
from alerting.simulate.store import StoreSimulation
from runtime.http.work_pools import SIMULATIONS
from serving.questions.stores import StoreRegistry
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tally.time.instants import DAY_MILLIS, from_millis

# The most store days on one page, which has at least one store: some seconds of CPU time.
MAX_STORE_DAYS = 400
# The same for rules of articles, with the days before the span: each day is read from the last
# counts on, for thousands of articles. 5,000 of them and a week before take a second of CPU time.
MAX_SHELF_DAYS = 60
# A chart shows no values if there are more subjects.
MAX_SUBJECTS_WITH_VALUES = 6
# Days before the span; a simulation "as published" can begin at the rule's first version.
_MAX_LEAD_DAYS, _MAX_LEAD_DAYS_PUBLISHED = 32, LEAD_DAYS[-1]
# Most shops have an article that for weeks is neither out of stock nor plentiful; it stays unsure.
_MAX_LEAD_DAYS_ARTICLES = 8
_ONE_DAY = timedelta(days=1)


@dataclass(frozen=True)
class SimulationQuery:
    """A question for the simulator; windows are in milliseconds since 1970 (UTC).

    `stores`: None for all stores of the rule. `with_values`: also return each window's number.
    """

    basis: SimulationBasis
    span: WindowSpan
    stores: frozenset[str] | None = None
    with_values: bool = False

    def includes_store(self, store_id: str) -> bool:
        """Whether the store is requested, whether or not the rule covers it."""
        return self.stores is None or store_id in self.stores


class _StoreResult(NamedTuple):
    store_id: str
    memory: PartitionMemory
    simulated: SimulatedStore
    # Folds further subjects, which nothing calls for, over the same windows.
    fold_others: Callable[[Iterable[str]], dict[str, ComparisonSpan]]


class Simulator:
    """Simulates over one set of views."""

    def __init__(self, views: ViewReader, registry: StoreRegistry, settings: Settings) -> None:
        self._views, self._registry, self._settings = views, registry, settings
        self._baselines = BaselineCache(views, registry, settings)

    async def simulate_page(self, asked: SimulationQuery, after: str) -> SimulatedPage:
        """Simulate the stores after `after`, as many as fit on a page. Raises ViewsUnreachable."""
        rule = asked.basis.rule
        # A rule that cannot be judged calls for nothing, so no table is read.
        if rule is None:
            return SimulatedPage((), {}, (), None)
        # The stores of a page share one moment, so that all use the same generation of a day.
        moment = SnapshotReader(self._views, self._registry, self._settings, self._baselines)
        active = ActiveStores(self._views, self._settings.partitions)
        await active.read(asked.basis.rules.families)
        all_ids = self._store_ids(asked, rule, (moment, active))
        waiting = [store_id for store_id in all_ids if store_id > after]
        most = _max_page_stores(asked)
        page = waiting[:most]
        judged = [await self._simulate_store(asked, rule, name, (moment, active)) for name in page]
        more = page[-1] if len(waiting) > len(page) else None
        if asked.basis.evaluator_states is None or not judged:
            return SimulatedPage(tuple(store.simulated for store in judged), {}, (), more)
        return (await self._compare_alerts(asked, judged, moment))._replace(after=more)

    def _store_ids(
        self,
        question: SimulationQuery,
        rule: VersionedRule,
        read: tuple[SnapshotReader, ActiveStores],
    ) -> list[str]:
        """The requested stores that the rule covers, ascending."""
        (moment, active), found = read, set[str]()
        opens = _opening_lookup(moment, question.span)
        # An evaluator knows the stores of its partition; all partitions together are all stores.
        for number in range(self._settings.partitions):
            expected = active.missing_stores(number, question.basis.rules, opens)
            found |= candidate_stores(rule, all_stores(active.partition_stores(number), expected))
        return sorted(filter(_StoreFilter(question, rule, self._registry), found))

    async def _simulate_store(
        self,
        question: SimulationQuery,
        rule: VersionedRule,
        store_id: str,
        read: tuple[SnapshotReader, ActiveStores],
    ) -> _StoreResult:
        moment, active = read
        number = partition_number(store_id, self._settings.partitions)
        senders = active.partition_stores(number)
        memory = question.basis.build_memory(number, senders)
        if question.basis.evaluator_states is None:
            opens = _opening_lookup(moment, question.span)
            begin_missing_stores(
                memory, active.missing_stores(number, question.basis.rules, opens), since=0
            )
        first_days = {
            family: days[store_id] for family, days in senders.items() if store_id in days
        }
        stopped = Event()
        read_now = _thread_reader(moment, asyncio.get_running_loop(), stopped)
        reading = StoreReading(moment, read_now, first_days)
        store = StoreSimulation(store_id, question.basis.rules, memory, reading)
        # Most rows are read at once; only judging shows how much further back it has to read.
        await moment.read(store.list_requests(rule, question.span))
        lead = _max_lead_days(question.basis)
        try:
            found = await SIMULATIONS.run(store.simulate, rule, question.span, lead)
        except asyncio.CancelledError:
            # A thread cannot be cancelled: it ends at its next read.
            stopped.set()
            raise
        if question.with_values:
            values = await SIMULATIONS.run(_values, rule, question.span, store, found)
            found = found._replace(values=values)
        return _StoreResult(
            store_id, memory, found, partial(store.fold_others, rule, found, question.span)
        )

    async def _compare_alerts(
        self, question: SimulationQuery, judged: Sequence[_StoreResult], moment: SnapshotReader
    ) -> SimulatedPage:
        ids = [store.store_id for store in judged]
        since = min(store.simulated.since for store in judged)
        # No alert is raised before its window has begun, but many are raised long after it.
        days = from_millis(since).date(), from_millis(question.basis.now).date() + _ONE_DAY
        sent = await load_published_alerts(self._views, question.basis.rule_id, ids, days)
        found: dict[tuple[str, str], AlertComparison] = {}
        stores, unjudged = [], set[date]()
        for store in judged:
            by_subject = group_by_subject(sent.get(store.store_id, ()))
            more = by_subject.keys() - store.simulated.spans.keys()
            # Every sent alert is compared, also if nothing calls for it by now.
            all_spans = {**store.simulated.spans, **await SIMULATIONS.run(store.fold_others, more)}
            # If an episode may have begun earlier, it is unknown which alerts were due.
            spans = {
                subject: unsettle_all(span)
                if subject in store.simulated.uncertain_subjects
                else span
                for subject, span in all_spans.items()
            }
            days_left = await self._pending_days(question, store, moment)
            settled = {subject: unsettle_days(days_left, span) for subject, span in spans.items()}
            for subject, span in sorted(settled.items()):
                found[store.store_id, subject] = compare_alerts(span, by_subject[subject])
                unjudged |= days_in_span(spans[subject].settled - span.settled, question.span)
            stores.append(store.simulated._replace(spans=settled))
        return SimulatedPage(tuple(stores), found, tuple(sorted(unjudged)), None)

    async def _pending_days(
        self, question: SimulationQuery, store: _StoreResult, moment: SnapshotReader
    ) -> set[date]:
        """The UTC days that the evaluator of the store's partition has not judged yet."""
        rules = question.basis.rules
        until = min(question.span.end, question.basis.last_window_end(store.memory.number))
        # The stock of an article depends on days before the folded ones.
        carries_over = question.basis.is_per_article
        start = (
            max(0, store.simulated.since - EVALUATION_MILLIS)
            if carries_over
            else store.simulated.since
        )
        days = span_utc_days(WindowSpan(start, until))
        found: set[date] = set()
        for family in rules.families:
            since = rules.since(family)
            judged = [day for day in days if utc_span(day).end > since]
            served = await moment.generations(family, judged)
            definition = moment.definition(family)
            found |= {*find_changed_days(store.memory, family, judged, served, definition).days}
        # For stock, all days after an unjudged day depend on it.
        return {day for day in days if day >= min(found)} if carries_over and found else found


def _opening_lookup(moment: SnapshotReader, span: WindowSpan) -> HoursLookup:
    """A look-up whether the stores file has a store's opening hours on a day of the span."""

    def opens(store_id: str) -> bool:
        days = moment.days(store_id)
        starts = days.day_starts(span)
        return any(has_opening_hours(days, days.date(start)) for start in starts)

    return opens


class _StoreFilter:
    """Whether a store is requested, and a version of the rule covers it on some day."""

    def __init__(
        self, question: SimulationQuery, rule: VersionedRule, registry: StoreRegistry
    ) -> None:
        self._question, self._rule, self._registry = question, rule, registry
        self._days = [*span_utc_days(question.span)]

    def __call__(self, store_id: str) -> bool:
        store = self._registry.store(store_id)
        return self._question.includes_store(store_id) and any(
            applies_to(version.rule, store, day)
            for version in self._rule.versions
            for day in self._days
        )


def _max_lead_days(basis: SimulationBasis) -> int:
    if basis.is_per_article:
        return _MAX_LEAD_DAYS_ARTICLES
    return _MAX_LEAD_DAYS if basis.evaluator_states is None else _MAX_LEAD_DAYS_PUBLISHED


def _max_page_stores(question: SimulationQuery) -> int:
    """How many stores fit on a page."""
    days = (question.span.end - question.span.start) / DAY_MILLIS
    if question.basis.is_per_article:
        return max(1, int(MAX_SHELF_DAYS / (days + _MAX_LEAD_DAYS_ARTICLES)))
    return max(1, int(MAX_STORE_DAYS / days))


def _values(
    rule: VersionedRule, span: WindowSpan, store: StoreSimulation, found: SimulatedStore
) -> dict[str, tuple[WindowValue, ...]]:
    """By subject the numbers of the store, or of the first articles with an episode."""
    raised = dict.fromkeys(episode.subject for episode in found.episodes)
    whole = dict.fromkeys([WHOLE_STORE] if rule.evaluates_stores else ())
    subjects = islice({**whole, **raised}, MAX_SUBJECTS_WITH_VALUES)
    return {name: store.values(rule, span, name) for name in subjects}


def _thread_reader(
    moment: SnapshotReader, loop: asyncio.AbstractEventLoop, stopped: Event
) -> Callable[[Sequence[ReadRequest]], None]:
    """A function that reads from a thread through the connection's event loop, until stopped."""

    def read_now(wanted: Sequence[ReadRequest]) -> None:
        """Read the missing readings. Raises CancelledError once stopped."""
        if stopped.is_set():
            raise CancelledError
        if missing := moment.missing(wanted):
            asyncio.run_coroutine_threadsafe(moment.read(missing), loop).result()

    return read_now
