"""A rule over days that have been, store after store: what the evaluator would have told.

It judges by the evaluator's own reading, verdicts and folds, and never speaks to its topics.
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

# Days of stores on one page, at least one store: some seconds of the processor.
MOST_STORE_DAYS = 400
# Where articles are looked at, those ahead of the span too: each day is read since the last counts,
# and has thousands of them. With 5,000 and a week ahead it is a second of the processor.
MOST_SHELF_DAYS = 60
# A chart of more of them shows none.
MOST_SUBJECTS_WITH_VALUES = 6
# Days before the span; as told, there is the rule's first version to begin at.
_MOST_LEAD, _MOST_LEAD_AS_TOLD = 32, LEADS[-1]
# Most shops have an article that is neither out nor plentiful for weeks: it is left out.
_MOST_LEAD_OF_ARTICLES = 8
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

    `told`: by store and subject how it differs from what was told, where that was asked.
    `unjudged`: UTC days of which another generation serves than the evaluators have judged, so that
    they say nothing.
    """

    stores: tuple[SimulatedStore, ...]
    told: Mapping[tuple[str, str], ToldComparison]
    unjudged: tuple[date, ...]
    after: str | None


class _JudgedStore(NamedTuple):
    store_id: str
    memory: PartitionMemory
    found: SimulatedStore
    # Subjects that nothing calls for, folded like those of which something is.
    others: Callable[[Iterable[str]], dict[str, FoldedSpan]]


class Simulator:
    """Simulates over one set of views."""

    def __init__(self, views: ViewReader, registry: StoreRegistry, settings: Settings) -> None:
        self._views, self._registry, self._settings = views, registry, settings
        self._usual = UsualDays(views, registry, settings)

    async def page(self, asked: SimulationQuestion, after: str) -> SimulatedPage:
        """The stores behind one, as many as a page holds. Raises ViewsUnreachable."""
        rule = asked.basis.rule
        # A rule that nothing can judge calls for nothing, and is asked of no table.
        if rule is None:
            return SimulatedPage((), {}, (), None)
        # One for the page: two stores are not judged by two generations of a day.
        moment = ViewsMoment(self._views, self._registry, self._settings, self._usual)
        active = ActiveStores(self._views, self._settings.partitions)
        await active.read(asked.basis.rules.families)
        all_ids = self._store_ids(asked, rule, (moment, active))
        waiting = [one for one in all_ids if one > after]
        most = _most_stores(asked)
        page = waiting[:most]
        judged = [await self._judged(asked, rule, one, (moment, active)) for one in page]
        more = page[-1] if len(waiting) > len(page) else None
        if asked.basis.evaluated is None or not judged:
            return SimulatedPage(tuple(one.found for one in judged), {}, (), more)
        return (await self._against(asked, judged, moment))._replace(after=more)

    def _store_ids(
        self,
        asked: SimulationQuestion,
        rule: JudgedRule,
        read: tuple[ViewsMoment, ActiveStores],
    ) -> list[str]:
        """The stores of the rule that are asked for, ascending."""
        (moment, active), found = read, set[str]()
        opens = _opens(moment, asked.span)
        # By partition, as an evaluator knows them: all partitions together are all stores.
        for number in range(self._settings.partitions):
            expected = active.expected(number, asked.basis.rules, opens)
            found |= stores_of(rule, all_stores(active.of(number), expected))
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
        if asked.basis.evaluated is None:
            opens = _opens(moment, asked.span)
            begin_expected(memory, active.expected(number, asked.basis.rules, opens), since=0)
        first_days = {
            family: days[store_id] for family, days in of_partition.items() if store_id in days
        }
        stopped = Event()
        read_now = _read_by(moment, asyncio.get_running_loop(), stopped)
        reading = StoreReading(moment, read_now, first_days)
        store = StoreSimulation(store_id, asked.basis.rules, memory, reading)
        # Most of it at once; how far back there is more to read is seen when it is judged.
        await moment.read(store.wanted(rule, asked.span))
        lead = _most_lead(asked.basis)
        try:
            found = await SIMULATIONS.run(store.simulated, rule, asked.span, lead)
        except asyncio.CancelledError:
            # A thread cannot be cancelled: it ends where it reads next.
            stopped.set()
            raise
        if asked.with_values:
            values = await SIMULATIONS.run(_values, rule, asked.span, store, found)
            found = found._replace(values=values)
        return _JudgedStore(store_id, memory, found, partial(store.others, rule, found, asked.span))

    async def _against(
        self, asked: SimulationQuestion, judged: Sequence[_JudgedStore], moment: ViewsMoment
    ) -> SimulatedPage:
        ids = [one.store_id for one in judged]
        since = min(one.found.since for one in judged)
        # Nothing is raised before its window has begun; and much of it long after.
        days = from_millis(since).date(), from_millis(asked.basis.now).date() + _ONE_DAY
        told = await told_alerts(self._views, asked.basis.rule_id, ids, days)
        found: dict[tuple[str, str], ToldComparison] = {}
        stores, unjudged = [], set[date]()
        for one in judged:
            by_subject = told_by_subject(told.get(one.store_id, ()))
            more = by_subject.keys() - one.found.spans.keys()
            # Whatever was told is compared, also where nothing calls for it by now.
            every = {**one.found.spans, **await SIMULATIONS.run(one.others, more)}
            # Where an episode may have begun before, nobody knows what should have been told.
            spans = {
                subject: _unsettled(span) if subject in one.found.unsure else span
                for subject, span in every.items()
            }
            left = await self._unjudged(asked, one, moment)
            settled = {subject: _without(left, span) for subject, span in spans.items()}
            for subject, span in sorted(settled.items()):
                found[one.store_id, subject] = compared(span, by_subject[subject])
                unjudged |= _days(spans[subject].settled - span.settled, asked.span)
            stores.append(one.found._replace(spans=settled))
        return SimulatedPage(tuple(stores), found, tuple(sorted(unjudged)), None)

    async def _unjudged(
        self, asked: SimulationQuestion, one: _JudgedStore, moment: ViewsMoment
    ) -> set[date]:
        """UTC days that the evaluator of the store's partition has still to look at."""
        rules = asked.basis.rules
        until = min(asked.span.end, asked.basis.until(one.memory.number))
        # What there is of an article hangs on days before those that were folded.
        carries_over = asked.basis.is_of_articles
        start = max(0, one.found.since - JUDGED_BACK) if carries_over else one.found.since
        days = judged_days(WindowSpan(start, until))
        found: set[date] = set()
        for family in rules.families:
            since = rules.since(family)
            judged = [day for day in days if utc_span(day).end > since]
            served = await moment.published(family, judged)
            definition = moment.definition(family)
            found |= {*moved(one.memory, family, judged, served, definition).days}
        # And on these hang all behind them.
        return {day for day in days if day >= min(found)} if carries_over and found else found


def _opens(moment: ViewsMoment, span: WindowSpan) -> Opens:
    """Whether the stores file says of a store when it is open on a day of the span."""

    def opens(store_id: str) -> bool:
        days = moment.days(store_id)
        starts = days.days_of(span)
        return any(tells_hours(days, days.date(start)) for start in starts)

    return opens


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


def _most_lead(basis: SimulationBasis) -> int:
    if basis.is_of_articles:
        return _MOST_LEAD_OF_ARTICLES
    return _MOST_LEAD if basis.evaluated is None else _MOST_LEAD_AS_TOLD


def _most_stores(asked: SimulationQuestion) -> int:
    """How many stores a page holds."""
    days = (asked.span.end - asked.span.start) / DAY_MILLIS
    if asked.basis.is_of_articles:
        return max(1, int(MOST_SHELF_DAYS / (days + _MOST_LEAD_OF_ARTICLES)))
    return max(1, int(MOST_STORE_DAYS / days))


def _without(days: Collection[date], span: FoldedSpan) -> FoldedSpan:
    """The span with no window of the UTC days settled: what an evaluator has not come to yet is no
    difference."""
    left = (one for one in span.settled if from_millis(one).date() not in days)
    return structs.replace(span, settled=frozenset(left))


def _unsettled(span: FoldedSpan) -> FoldedSpan:
    return structs.replace(span, settled=frozenset())


def _days(windows: Iterable[int], span: WindowSpan) -> set[date]:
    """The UTC days of those of the windows that lie in the span."""
    return {from_millis(one).date() for one in windows if one in span.windows}


def _values(
    rule: JudgedRule, span: WindowSpan, store: StoreSimulation, found: SimulatedStore
) -> dict[str, tuple[JudgedValue, ...]]:
    """By subject the numbers of the store, or of the first articles that are called for."""
    called = dict.fromkeys(one.subject for one in found.episodes)
    whole = dict.fromkeys([WHOLE_STORE] if rule.judges_stores else ())
    subjects = islice({**whole, **called}, MOST_SUBJECTS_WITH_VALUES)
    return {one: store.values(rule, span, one) for one in subjects}


def _read_by(
    moment: ViewsMoment, loop: asyncio.AbstractEventLoop, stopped: Event
) -> Callable[[Sequence[ReadingWanted]], None]:
    """Reads from a thread, by the loop that the connection belongs to, until it is stopped."""

    def read_now(wanted: Sequence[ReadingWanted]) -> None:
        """Reads what is missing. Raises CancelledError once it is stopped."""
        if stopped.is_set():
            raise CancelledError
        if missing := moment.missing(wanted):
            asyncio.run_coroutine_threadsafe(moment.read(missing), loop).result()

    return read_now
