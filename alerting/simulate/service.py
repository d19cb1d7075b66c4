"""Answers requests to simulate a rule over some days, as if it had always been in force."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from msgspec import structs

from alerting.evaluate.scope.rule_set import RuleSet, RuleVersions
from alerting.evaluate.snapshot.calendar import WindowSpan
from alerting.queries.known_rules import RuleRepository
from alerting.rules.rule import EVALUATED_KINDS, Rule, RuleVersion
from alerting.rules.rule_file import find_contradictions
from alerting.rules.store.topic import RuleReader, write_rules
from alerting.rules.versions import RuleHistory
from alerting.simulate.findings import SimulatedPage, SimulationRequest
from alerting.simulate.runs import SimulatedRules
from alerting.simulate.simulator import SimulationQuery, Simulator
from serving.questions.stores import StoreRegistry
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tally.errors import BadQuery, SimulationsBusy
from tally.time.instants import DAY_MILLIS

# All days of a store come on one page; with hundreds of articles that is a minute of CPU time.
MAX_ARTICLE_DAYS = 100
MAX_WAITING = 4
_ALWAYS = 0


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


@dataclass(frozen=True)
class SimulationService:
    """Runs simulations on request; `now`: milliseconds since 1970 (UTC)."""

    rules: RuleRepository
    simulator: Simulator
    now: Callable[[], int] = lambda: int(time.time() * 1000)
    queue: SimulationQueue = field(default_factory=SimulationQueue)

    @classmethod
    def from_settings(cls, settings: Settings, views: ViewReader) -> "SimulationService":
        """Build the service over the topics of the brokers. Raises BadSettings."""
        simulator = Simulator(views, StoreRegistry.load(settings), settings)
        known = RuleRepository(RuleReader(settings), partial(write_rules, settings))
        return cls(known, simulator)

    async def simulate_page(self, request: SimulationRequest, after: str = "") -> SimulatedPage:
        """Simulate the stores after the store `after`.

        Raises UnknownName, BadQuery, ViewsUnreachable, and SimulationsBusy when too many wait.
        """
        async with self.queue.acquire():
            return await self.simulator.simulate_page(await self._build_query(request), after)

    async def _build_query(self, request: SimulationRequest) -> SimulationQuery:
        read = await self.rules.read()
        chains: Mapping[str, Sequence[RuleVersion]] = read.versions
        if request.draft is not None:
            _refuse_contradiction(request.draft, read)
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
        rules = SimulatedRules(rule, together)
        _refuse_long(rules, request.span)
        return SimulationQuery(rules, request.span, self.now(), request.stores, request.with_values)


def _replace_rule(chains: RuleVersions, rule: Rule) -> RuleVersions:
    """The rules with this one in the place of all its versions."""
    versions = chains.get(rule.rule_id, ())
    # It gets a number of its own, because no alert was sent under this version.
    number = versions[-1].version + 1 if versions else 1
    return {
        **chains,
        rule.rule_id: (RuleVersion(rule=rule, version=number, effective_from=_ALWAYS),),
    }


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
            waiting += _dependency_ids(chains[name])
    return found


def _dependency_ids(chain: Iterable[RuleVersion]) -> Iterable[str]:
    return (name for version in chain for name in version.rule.unless)


def _refuse_long(rules: SimulatedRules, span: WindowSpan) -> None:
    """Raises BadQuery for more days of a store than fit on one page."""
    if rules.is_per_article and span.end - span.start > MAX_ARTICLE_DAYS * DAY_MILLIS:
        raise BadQuery(
            "to",
            f"to: at most {MAX_ARTICLE_DAYS} days of a rule that looks at articles one by one, for"
            " each is reckoned from the last counts on; ask for fewer",
        )


def _refuse_contradiction(draft: Rule, chains: RuleHistory) -> None:
    """Raises BadQuery for a rule that could not be applied beside those in force."""
    found = find_contradictions({draft.rule_id: draft}, chains.active_rules()).get(draft.rule_id)
    if found:
        raise BadQuery("rule", "; ".join(f"rule: {problem}" for problem in found))
