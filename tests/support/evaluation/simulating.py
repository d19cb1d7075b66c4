"""Simulations in memory: a test plays the rules' topic."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from alerting.evaluate.scope.calendar import WindowSpan
from alerting.queries.known_rules import RuleRepository
from alerting.rules.rule import RuleVersion
from alerting.rules.versions import RuleHistory, RuleRecord, StoredRule, build_history, parse_entry
from alerting.simulate.service import SimulatedPage, SimulationRequest, SimulationService
from tally.config.settings import Settings
from tally.errors import RuleConflict, StackError
from tally.time.instants import from_millis, to_millis
from tally.time.windows import WINDOW_MILLIS
from tests.support.evaluation.compared import Compared, compare, of_page
from tests.support.evaluation.evaluating import DAY, ListedRules, Watched
from tests.support.serving.serving_world import MemoryViews, at, flip

EVE, NOW = "2026-11-23", f"{DAY}T20:00"
DAWN, DUSK = f"{DAY}T08:00", f"{DAY}T12:00"


def read_history(records: Iterable[RuleRecord]) -> RuleHistory:
    """The versions that records of the topic make."""
    return build_history(map(parse_entry, records))


class AwayRules(ListedRules):
    """Rules whose topic does not answer."""

    def read(self, until: int | None = None) -> RuleHistory:
        raise StackError("planted")


class WrittenRules(ListedRules):
    """Rules whose topic takes what is written, by a clock that stands; it begins with versions."""

    def __init__(self, *versions: RuleVersion, now: str = NOW) -> None:
        self._records: list[RuleRecord] = []
        self._now = to_millis(at(now))
        for one in versions:
            stored = StoredRule(rule=one.rule, version=one.version, retired=one.retired)
            self._append(stored, one.effective_from - WINDOW_MILLIS)

    def read(self, until: int | None = None) -> RuleHistory:
        return read_history(self._records)

    def write(self, stored: Sequence[StoredRule]) -> list[RuleVersion]:
        """As alerting/rules/topic.py does it: a change that lost to another one is
        refused."""
        for one in stored:
            self._append(one, self._now)
        chains = self.read()
        for one in stored:
            if not chains.is_effective(one):
                raise RuleConflict("planted", (one.rule.rule_id,))
        made = [chains.find_version(one.rule.rule_id, one.version) for one in stored]
        return [version for version in made if version is not None]

    def _append(self, stored: StoredRule, arrived: int) -> None:
        offset = len(self._records)
        self._records.append(RuleRecord(offset, stored.key.encode(), stored.value, arrived))


def simulations_over(
    views: MemoryViews,
    rules: ListedRules,
    settings: Settings | None = None,
    now: str = NOW,
) -> SimulationService:
    """A service whose clock stands, and whose rules are read again each time."""
    known = RuleRepository(rules, getattr(rules, "write", None), count(0, 10).__next__)
    return SimulationService(known, views, settings or Settings(), lambda: to_millis(at(now)))


async def page_of(store: Watched, rule_id: str, start: str, end: str, **more: Any) -> SimulatedPage:
    """What a simulation says of a store's world, from `2026-11-24T08:00` on, or a page of that."""
    after = more.pop("after", "")
    store.views.alerts.told = [*store.alerts]
    simulations = simulations_over(store.views, store.rules, store.settings)
    span = WindowSpan(to_millis(at(start)), to_millis(at(end)))
    return await simulations.simulate_page(SimulationRequest(rule_id, span, **more), after)


def simulated(
    store: Watched, rule_id: str = "busy", start: str = DAWN, end: str = DUSK, **more: Any
) -> SimulatedPage:
    """The same, of the morning of DAY."""
    return asyncio.run(page_of(store, rule_id, start, end, **more))


def compared(store: Watched, rule_id: str = "busy", start: str = DAWN, end: str = DUSK) -> Compared:
    """What the store's evaluator has told, against what a simulation says of the same span."""
    page = simulated(store, rule_id, start, end)
    span = to_millis(at(start)), to_millis(at(end))
    return compare(of_page(page), store.alerts, rule_id, span)


def served(store: Watched, until: str, generation: int = 1) -> None:
    """A generation serves the day before whole, and DAY up to a time."""
    for day, covered in ((EVE, f"{DAY}T00:00"), (DAY, f"{DAY}T{until}")):
        at_night = f"{DAY}T18:{generation:02d}"
        store.publish(flip(day, generation, at_night, 0, covered_until=covered))


def clock_of(millis: int) -> str:
    """Hour and minute (UTC) of an instant in milliseconds since 1970."""
    return f"{from_millis(millis):%H:%M}"


def clocks(page: SimulatedPage) -> list[tuple[str, str | None, bool]]:
    """Of each episode the clock (UTC) at its begin and its end, and whether it is complete."""
    return [
        (
            clock_of(one.episode.start),
            None if one.episode.ended is None else clock_of(one.episode.ended),
            one.is_complete,
        )
        for store in page.stores
        for one in store.episodes
    ]
