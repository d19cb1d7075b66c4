"""Simulates a rule over past days, store by store: the alerts that the evaluator would have sent.

It judges with the evaluator's own reading, verdicts and folds, and never writes to its topics.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from itertools import islice
from threading import Event
from typing import NamedTuple

from msgspec import structs

from runtime.work_pools import SIMULATIONS
from serving.alerts.evaluator.calendar import WindowSpan, tells_hours, utc_span
from serving.alerts.evaluator.judged_rules import JudgedRule
from serving.alerts.evaluator.judgements import WHOLE_STORE
from serving.alerts.evaluator.memory import PartitionMemory
from serving.alerts.evaluator.moment import ReadingWanted, ViewsMoment
from serving.alerts.evaluator.partition import DAY_MILLIS, JUDGED_BACK
from serving.alerts.evaluator.pointers import judged_days, moved
from serving.alerts.evaluator.rule_stores import is_of
from serving.alerts.evaluator.scope import stores_of
from serving.alerts.evaluator.stores import ActiveStores, Opens, all_stores, begin_expected
from serving.alerts.evaluator.usual_days import UsualDays
from serving.alerts.simulation.basis import SimulationBasis
from serving.alerts.simulation.findings import JudgedValue, SimulatedStore
from serving.alerts.simulation.folds import LEADS, StoreReading
from serving.alerts.simulation.store import StoreSimulation
from serving.alerts.simulation.told import told_alerts, told_by_subject
from serving.merge.views import ViewReader
from serving.query.stores import StoreRegistry
from tally.alerts.simulated import FoldedSpan, ToldComparison, compared
from tally.instants import from_millis
from tally.partitions import partition_of
from tally.settings import Settings

# The most store days on one page, which has at least one store: some seconds of CPU time.
MOST_STORE_DAYS = 400
# The same for rules of articles, with the days before the span: each day is read from the last
# counts on, for thousands of articles. 5,000 of them and a week before take a second of CPU time.
MOST_SHELF_DAYS = 60
# A chart shows no values if there are more subjects.
MOST_SUBJECTS_WITH_VALUES = 6
# Days before the span; a simulation "as told" can begin at the rule's first version.
_MOST_LEAD, _MOST_LEAD_AS_TOLD = 32, LEADS[-1]
# Most shops have an article that for weeks is neither out of stock nor plentiful; it stays unsure.
_MOST_LEAD_OF_ARTICLES = 8
_ONE_DAY = timedelta(days=1)


@dataclass(frozen=True)
class SimulationQuestion:
    """A question for the simulator; windows are in milliseconds since 1970 (UTC).

    `stores`: None for all stores of the rule. `with_values`: also return each window's number.
    """

    basis: SimulationBasis
    span: WindowSpan
    stores: frozenset[str] | None = None
    with_values: bool = False

    def asks_for(self, store_id: str) -> bool:
        """Whether the store is requested, whether or not the rule covers it."""
        return self.stores is None or store_id in self.stores


class SimulatedPage(NamedTuple):
    """Some stores by their ids, ascending; `after`: the last of them if there are more.

    `told`: by store and subject the difference from the alerts that were sent, if requested.
    `unjudged`: UTC days that are served by another generation than the one that the evaluators have
    judged, so that their comparison would mean nothing.
    """

    stores: tuple[SimulatedStore, ...]
    told: Mapping[tuple[str, str], ToldComparison]
    unjudged: tuple[date, ...]
    after: str | None


class _JudgedStore(NamedTuple):
    store_id: str
    memory: PartitionMemory
    found: SimulatedStore
    # Folds further subjects, which nothing calls for, over the same windows.
    others: Callable[[Iterable[str]], dict[str, FoldedSpan]]


class Simulator:
    """Simulates over one set of views."""

    def __init__(self, views: ViewReader, registry: StoreRegistry, settings: Settings) -> None:
        self._views, self._registry, self._settings = views, registry, settings
        self._usual = UsualDays(views, registry, settings)

    async def page(self, asked: SimulationQuestion, after: str) -> SimulatedPage:
        """Simulate the stores after `after`, as many as fit on a page. Raises ViewsUnreachable."""
        rule = asked.basis.rule
        # A rule that cannot be judged calls for nothing, so no table is read.
        if rule is None:
            return SimulatedPage((), {}, (), None)
        # The stores of a page share one moment, so that all use the same generation of a day.
        moment = ViewsMoment(self._views, self._registry, self._settings, self._usual)
        active = ActiveStores(self._views, self._settings.partitions)
        await active.read(asked.basis.rules.families)
        all_ids = self._store_ids(asked, rule, (moment, active))
        waiting = [store_id for store_id in all_ids if store_id > after]
        most = _most_stores(asked)
        page = waiting[:most]
        judged = [await self._judge_store(asked, rule, name, (moment, active)) for name in page]
        more = page[-1] if len(waiting) > len(page) else None
        if asked.basis.evaluated is None or not judged:
            return SimulatedPage(tuple(store.found for store in judged), {}, (), more)
        return (await self._compare_alerts(asked, judged, moment))._replace(after=more)

    def _store_ids(
        self, question: SimulationQuestion, rule: JudgedRule, read: tuple[ViewsMoment, ActiveStores]
    ) -> list[str]:
        """The requested stores that the rule covers, ascending."""
        (moment, active), found = read, set[str]()
        opens = _opening_lookup(moment, question.span)
        # An evaluator knows the stores of its partition; all partitions together are all stores.
        for number in range(self._settings.partitions):
            expected = active.expected(number, question.basis.rules, opens)
            found |= stores_of(rule, all_stores(active.of(number), expected))
        return sorted(filter(_StoreFilter(question, rule, self._registry), found))

    async def _judge_store(
        self,
        question: SimulationQuestion,
        rule: JudgedRule,
        store_id: str,
        read: tuple[ViewsMoment, ActiveStores],
    ) -> _JudgedStore:
        moment, active = read
        number = partition_of(store_id, self._settings.partitions)
        senders = active.of(number)
        memory = question.basis.memory(number, senders)
        if question.basis.evaluated is None:
            opens = _opening_lookup(moment, question.span)
            begin_expected(memory, active.expected(number, question.basis.rules, opens), since=0)
        first_days = {
            family: days[store_id] for family, days in senders.items() if store_id in days
        }
        stopped = Event()
        read_now = _read_by(moment, asyncio.get_running_loop(), stopped)
        reading = StoreReading(moment, read_now, first_days)
        store = StoreSimulation(store_id, question.basis.rules, memory, reading)
        # Most rows are read at once; only judging shows how much further back it has to read.
        await moment.read(store.wanted(rule, question.span))
        lead = _most_lead(question.basis)
        try:
            found = await SIMULATIONS.run(store.simulated, rule, question.span, lead)
        except asyncio.CancelledError:
            # A thread cannot be cancelled: it ends at its next read.
            stopped.set()
            raise
        if question.with_values:
            values = await SIMULATIONS.run(_values, rule, question.span, store, found)
            found = found._replace(values=values)
        return _JudgedStore(
            store_id, memory, found, partial(store.others, rule, found, question.span)
        )

    async def _compare_alerts(
        self, question: SimulationQuestion, judged: Sequence[_JudgedStore], moment: ViewsMoment
    ) -> SimulatedPage:
        ids = [store.store_id for store in judged]
        since = min(store.found.since for store in judged)
        # No alert is raised before its window has begun, but many are raised long after it.
        days = from_millis(since).date(), from_millis(question.basis.now).date() + _ONE_DAY
        sent = await told_alerts(self._views, question.basis.rule_id, ids, days)
        found: dict[tuple[str, str], ToldComparison] = {}
        stores, unjudged = [], set[date]()
        for store in judged:
            by_subject = told_by_subject(sent.get(store.store_id, ()))
            more = by_subject.keys() - store.found.spans.keys()
            # Every sent alert is compared, also if nothing calls for it by now.
            all_spans = {**store.found.spans, **await SIMULATIONS.run(store.others, more)}
            # If an episode may have begun earlier, it is unknown which alerts were due.
            spans = {
                subject: _unsettle_all(span) if subject in store.found.unsure else span
                for subject, span in all_spans.items()
            }
            days_left = await self._unjudged_days(question, store, moment)
            settled = {subject: _unsettle_days(days_left, span) for subject, span in spans.items()}
            for subject, span in sorted(settled.items()):
                found[store.store_id, subject] = compared(span, by_subject[subject])
                unjudged |= _days_in_span(spans[subject].settled - span.settled, question.span)
            stores.append(store.found._replace(spans=settled))
        return SimulatedPage(tuple(stores), found, tuple(sorted(unjudged)), None)

    async def _unjudged_days(
        self, question: SimulationQuestion, store: _JudgedStore, moment: ViewsMoment
    ) -> set[date]:
        """The UTC days that the evaluator of the store's partition has not judged yet."""
        rules = question.basis.rules
        until = min(question.span.end, question.basis.until(store.memory.number))
        # The stock of an article depends on days before the folded ones.
        carries_over = question.basis.is_of_articles
        start = max(0, store.found.since - JUDGED_BACK) if carries_over else store.found.since
        days = judged_days(WindowSpan(start, until))
        found: set[date] = set()
        for family in rules.families:
            since = rules.since(family)
            judged = [day for day in days if utc_span(day).end > since]
            served = await moment.published(family, judged)
            definition = moment.definition(family)
            found |= {*moved(store.memory, family, judged, served, definition).days}
        # For stock, all days after an unjudged day depend on it.
        return {day for day in days if day >= min(found)} if carries_over and found else found


def _opening_lookup(moment: ViewsMoment, span: WindowSpan) -> Opens:
    """A look-up whether the stores file has a store's opening hours on a day of the span."""

    def opens(store_id: str) -> bool:
        days = moment.days(store_id)
        starts = days.days_of(span)
        return any(tells_hours(days, days.date(start)) for start in starts)

    return opens


class _StoreFilter:
    """Whether a store is requested, and a version of the rule covers it on some day."""

    def __init__(
        self, question: SimulationQuestion, rule: JudgedRule, registry: StoreRegistry
    ) -> None:
        self._question, self._rule, self._registry = question, rule, registry
        self._days = [*judged_days(question.span)]

    def __call__(self, store_id: str) -> bool:
        store = self._registry.store(store_id)
        return self._question.asks_for(store_id) and any(
            is_of(version.rule, store, day) for version in self._rule.versions for day in self._days
        )


def _most_lead(basis: SimulationBasis) -> int:
    if basis.is_of_articles:
        return _MOST_LEAD_OF_ARTICLES
    return _MOST_LEAD if basis.evaluated is None else _MOST_LEAD_AS_TOLD


def _most_stores(question: SimulationQuestion) -> int:
    """How many stores fit on a page."""
    days = (question.span.end - question.span.start) / DAY_MILLIS
    if question.basis.is_of_articles:
        return max(1, int(MOST_SHELF_DAYS / (days + _MOST_LEAD_OF_ARTICLES)))
    return max(1, int(MOST_STORE_DAYS / days))


def _unsettle_days(days: Collection[date], span: FoldedSpan) -> FoldedSpan:
    """The span with all windows of the UTC days unsettled: unjudged windows are no difference."""
    settled = (start for start in span.settled if from_millis(start).date() not in days)
    return structs.replace(span, settled=frozenset(settled))


def _unsettle_all(span: FoldedSpan) -> FoldedSpan:
    return structs.replace(span, settled=frozenset())


def _days_in_span(windows: Iterable[int], span: WindowSpan) -> set[date]:
    """The UTC days of the windows that lie in the span."""
    return {from_millis(start).date() for start in windows if start in span.windows}


def _values(
    rule: JudgedRule, span: WindowSpan, store: StoreSimulation, found: SimulatedStore
) -> dict[str, tuple[JudgedValue, ...]]:
    """By subject the numbers of the store, or of the first articles with an episode."""
    raised = dict.fromkeys(episode.subject for episode in found.episodes)
    whole = dict.fromkeys([WHOLE_STORE] if rule.judges_stores else ())
    subjects = islice({**whole, **raised}, MOST_SUBJECTS_WITH_VALUES)
    return {name: store.values(rule, span, name) for name in subjects}


def _read_by(
    moment: ViewsMoment, loop: asyncio.AbstractEventLoop, stopped: Event
) -> Callable[[Sequence[ReadingWanted]], None]:
    """A function that reads from a thread through the connection's event loop, until stopped."""

    def read_now(wanted: Sequence[ReadingWanted]) -> None:
        """Read the missing readings. Raises CancelledError once stopped."""
        if stopped.is_set():
            raise CancelledError
        if missing := moment.missing(wanted):
            asyncio.run_coroutine_threadsafe(moment.read(missing), loop).result()

    return read_now
