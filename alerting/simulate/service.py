"""Answers questions about rules: the known versions, and the simulation of one over some days."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from confluent_kafka import KafkaException

from alerting.evaluate.scope.rule_set import RuleVersions
from alerting.evaluate.snapshot.calendar import WindowSpan
from alerting.evaluate.step import RuleSource
from alerting.rules.rule import EVALUATED_KINDS, Rule, RuleVersion
from alerting.rules.rule_file import find_contradictions
from alerting.rules.store.topic import RuleReader, write_rules
from alerting.rules.versions import RuleHistory, StoredRule
from alerting.simulate.basis import SimulationBasis, backdate_rules, replace_rule, select_rules
from alerting.simulate.findings import SimulatedPage
from alerting.simulate.simulator import SimulationQuery, Simulator
from alerting.simulate.state import StateReader, StateSource
from alerting.simulate.turns import SimulationQueue
from runtime.http.work_pools import SIMULATIONS, WorkPool
from serving.questions.stores import StoreRegistry
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tally.errors import BadQuery, StackError, UnknownName, ViewsUnreachable
from tally.time.instants import DAY_MILLIS

# All days of a store come on one page; with hundreds of articles that is a minute of CPU time.
MAX_ARTICLE_DAYS = 100

# The maximum age of rules in an answer: of many concurrent requests, one reads the topic's end.
CACHE_SECONDS = 1.0

# Raises RuleConflict when another writer was first with one of them, and SendFailed.
RuleWriter = Callable[[Sequence[StoredRule]], list[RuleVersion]]


class RuleRepository:
    """The rules, for callers on an event loop; without a writer none can be written.

    All concurrent callers share one read of the topic. `seconds`: a monotonic clock.
    """

    def __init__(
        self,
        source: RuleSource,
        writer: RuleWriter | None = None,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._writer, self._seconds = source, writer, seconds
        # One thread, because each read continues where the last one stopped.
        self._pool = WorkPool("rules", 1)
        self._reading: asyncio.Future[RuleHistory] | None = None
        self._cached: RuleHistory | None = None
        self._cached_at = 0.0

    async def read(self) -> RuleHistory:
        """The existing versions, at most REUSED_SECONDS old. Raises ViewsUnreachable."""
        if self._cached is not None and self._seconds() - self._cached_at <= CACHE_SECONDS:
            return self._cached
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self.read_now())
        # The first caller may be cancelled; the others still need the answer.
        return await asyncio.shield(self._reading)

    async def read_now(self) -> RuleHistory:
        """The versions that exist now, read for this caller. Raises ViewsUnreachable."""
        return await self._pool.run(self._read)

    async def versions(self, rule_id: str) -> tuple[RuleVersion, ...]:
        """The versions of one rule, ascending. Raises UnknownName, ViewsUnreachable."""
        found = (await self.read()).versions.get(rule_id)
        if not found:
            raise UnknownName(
                "rule_id", f"there is no rule {rule_id[:64]!r}; GET /v1/rules lists them"
            )
        return found

    async def write(self, stored: StoredRule) -> RuleVersion:
        """Write a version and return the version in force once it is read back.

        Raises RuleConflict, SendFailed, ViewsUnreachable.
        """
        (version,) = await self._pool.run(self._write, stored)
        return version

    def _write(self, stored: StoredRule) -> list[RuleVersion]:
        if self._writer is None:
            raise ViewsUnreachable("there is no topic of rules here")
        # The cached rules do not have the new version.
        self._cached = None
        try:
            return self._writer([stored])
        except (KafkaException, StackError) as error:
            raise ViewsUnreachable(
                "the rule cannot be written; look at `tally status`, then at what holds"
            ) from error

    def _read(self) -> RuleHistory:
        began = self._seconds()
        try:
            chains = self._source.read()
        except (KafkaException, StackError) as error:
            raise ViewsUnreachable(
                "the rules cannot be read; look at `tally status` and ask again"
            ) from error
        self._cached, self._cached_at = chains, began
        return chains


class SimulationRequest(NamedTuple):
    """A request to simulate a rule on a span of windows, in milliseconds since 1970 (UTC).

    `draft`: a rule that replaces all its versions. `against_published`: judge with the state that
    the evaluators had, and compare with the alerts that were sent.
    """

    rule_id: str
    span: WindowSpan
    stores: frozenset[str] | None = None
    draft: Rule | None = None
    against_published: bool = False
    with_values: bool = False


@dataclass(frozen=True)
class SimulationService:
    """Runs simulations on request; `now`: milliseconds since 1970 (UTC)."""

    rules: RuleRepository
    state: StateSource
    simulator: Simulator
    now: Callable[[], int] = lambda: int(time.time() * 1000)
    queue: SimulationQueue = field(default_factory=SimulationQueue)

    @classmethod
    def from_settings(cls, settings: Settings, views: ViewReader) -> "SimulationService":
        """Build the desk over the topics of the brokers. Raises BadSettings."""
        simulator = Simulator(views, StoreRegistry.load(settings), settings)
        known = RuleRepository(RuleReader(settings), partial(write_rules, settings))
        return cls(known, StateReader(settings), simulator)

    async def simulate_page(self, wish: SimulationRequest, after: str = "") -> SimulatedPage:
        """Simulate the stores after the store `after`.

        Raises UnknownName, BadQuery, ViewsUnreachable, and SimulationsBusy when too many wait.
        """
        async with self.queue.acquire():
            return await self.simulator.simulate_page(await self._build_query(wish), after)

    async def _build_query(self, wish: SimulationRequest) -> SimulationQuery:
        read = await self.rules.read()
        chains: RuleVersions = read.versions
        if wish.draft is not None:
            _refuse_contradiction(wish.draft, read)
            chains = replace_rule(chains, wish.draft)
        elif wish.rule_id not in chains:
            # It raises the same error as the other endpoints.
            await self.rules.versions(wish.rule_id)
        if not wish.against_published:
            # A draft too: a version in force from tomorrow would judge no window of yesterday.
            chains = backdate_rules(chains)
        evaluated = await SIMULATIONS.run(self.state.read) if wish.against_published else None
        rules = select_rules(chains, wish.rule_id)
        basis = SimulationBasis(wish.rule_id, rules, self.now(), evaluated)
        if basis.rule is None:
            raise BadQuery(
                "rule",
                f"rule: {wish.rule_id} is not judged; judged are"
                f" {' and '.join(EVALUATED_KINDS)} rules of whole stores",
            )
        _refuse_long(basis, wish.span)
        return SimulationQuery(basis, wish.span, wish.stores, wish.with_values)


def _refuse_long(basis: SimulationBasis, span: WindowSpan) -> None:
    """Raises BadQuery for more days of a store than fit on one page."""
    if basis.is_per_article and span.end - span.start > MAX_ARTICLE_DAYS * DAY_MILLIS:
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
