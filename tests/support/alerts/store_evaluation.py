"""Verdicts on a store's local days over rows in memory, without an evaluator around them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from alerting.evaluate.scope.rule_set import RuleSet, VersionedRule
from alerting.evaluate.snapshot.snapshot_reader import ReadRequest, SnapshotReader
from alerting.evaluate.snapshot.window_facts import DayWindow
from alerting.evaluate.state.memory import PartitionMemory
from alerting.evaluate.verdicts.verdicts import Verdicts
from alerting.rules.rule import Rule, RuleVersion
from serving.questions.stores import StoreRegistry
from tally.alerts.tick import SpeedEpoch, Tick
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tally.time.instants import to_millis
from tests.support.serving.serving_world import PARTITIONS, MemoryViews, World, at


@dataclass
class StoreEvaluation:
    """Evaluates one store of a world at an instant, up to which all that had arrived was read."""

    world: World
    now: str
    families: tuple[str, ...] = ("sales", "traffic")
    store: str = "367"
    settings: Settings = field(default_factory=lambda: Settings(default_timezone="Europe/Rome"))

    def __post_init__(self) -> None:
        registry = StoreRegistry.load(self.settings)
        self.snapshot = SnapshotReader(MemoryViews(self.world), registry, self.settings)
        self.memory = PartitionMemory(partition_number(self.store, PARTITIONS))
        instant = to_millis(at(self.now))
        self.memory.tick = Tick(
            n=1,
            at=instant,
            through=dict.fromkeys(self.families, instant),
            epoch=dict.fromkeys(self.families, SpeedEpoch(1)),
        )
        for family in self.families:
            self.memory.begin_store((family, self.store), 0)

    def verdicts(self, rules: RuleSet) -> Verdicts:
        """What evaluates by these rules."""
        return Verdicts(rules, self.memory, self.snapshot, self._read_now)

    def of_day(self, rule: Rule | Sequence[RuleVersion], noon: str) -> list[DayWindow]:
        """The windows of the local day that holds the instant, by a rule or by versions of one."""
        versions = (
            [RuleVersion(rule=rule, version=1, effective_from=0)]
            if isinstance(rule, Rule)
            else rule
        )
        rules = RuleSet({versions[0].rule.rule_id: tuple(versions)})
        versioned: VersionedRule = rules.rules[0]
        start = self.snapshot.days(self.store).day(to_millis(at(noon))).start
        return self.verdicts(rules).day_windows(versioned, self.store, start)

    def _read_now(self, wanted: Sequence[ReadRequest]) -> None:
        asyncio.run(self.snapshot.read(wanted))


def _always(rule: Rule) -> RuleVersion:
    return RuleVersion(rule=rule, version=1, effective_from=0)
