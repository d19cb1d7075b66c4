"""An evaluator over a world in memory, with the brokers' part played by lists: what it sent, and
its state as whoever comes after it would read it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

import msgspec

from alerting.alert.resolution import AlertResolution
from alerting.evaluate.state.memory import STATE_TOPIC
from alerting.evaluate.step import ALERTS, RESOLUTIONS, TICKS, UPDATES, Evaluator
from alerting.rules.rule import Rule, RuleVersion, Threshold
from alerting.rules.versions import RuleHistory
from runtime.processor.step import Input, Output
from runtime.registry.sources import SALES
from serving.storage.tables import Activity
from tally.alerts.message import Alert, decode_alert
from tally.alerts.tick import SpeedEpoch, Tick
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tally.families.family import Family
from tally.families.generation import Generation
from tally.time.instants import format_utc, to_millis
from tests.support.serving.serving_world import PARTITIONS, MemoryViews, World, at, sale

DAY = "2026-11-24"
BUSY = Rule(
    rule_id="busy",
    metric="transactions",
    condition=Threshold(">=", Decimal(5)),
    clear=Threshold("<=", Decimal(2)),
)
SILENT = Rule(rule_id="silent", kind="silence", family="sales", on_silence="raise", for_=2)


class ListedRules:
    """Rules that are known from the start."""

    def __init__(self, *versions: RuleVersion) -> None:
        chains: dict[str, tuple[RuleVersion, ...]] = {}
        for one in versions:
            chains[one.rule.rule_id] = (*chains.get(one.rule.rule_id, ()), one)
        self._chains = RuleHistory(chains, {})

    def read(self, until: int | None = None) -> RuleHistory:
        return self._chains


def in_force(rule: Rule, since: str, version: int = 1, *, retired: bool = False) -> RuleVersion:
    """A version of the rule that evaluates windows from an instant on (`2026-11-24T08:00`)."""
    start = to_millis(at(since))
    return RuleVersion(rule=rule, version=version, effective_from=start, retired=retired)


@dataclass
class Watched:
    """One store's partition, evaluated."""

    rules: ListedRules
    store: str = "367"
    settings: Settings = field(default_factory=lambda: Settings(default_timezone="Europe/Rome"))
    world: World = field(default_factory=World)
    alerts: list[Alert] = field(default_factory=list)
    state: list[Input] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.views = MemoryViews(self.world)
        self.ticks = self.now = 0
        self.partition = partition_number(self.store, PARTITIONS)
        self.evaluator = Evaluator(self.settings, self.views, self.rules)

    def close(self) -> None:
        """Ends what it has begun."""
        self.evaluator.close()

    def begin_again(self) -> None:
        """Another process goes on from the state."""
        self.evaluator.close()
        self.evaluator = Evaluator(self.settings, self.views, self.rules)
        self.evaluator.restore(self.state)

    def sends(self, first_day: str, family: Family = SALES) -> None:
        """The store has had events of the family since that day."""
        days = datetime.fromisoformat(first_day).date()
        self.world.activity.append((family, Activity(self.store, days, days)))

    def publish(self, generation: Generation, family: Family = SALES) -> None:
        """The generation serves its day from now on."""
        self.world.pointers.append((family, generation))

    def hint(self, start: str, family: Family = SALES) -> list[Alert]:
        """What is told when a window is said to have changed."""
        told = {
            "family": family.name,
            "store_id": self.store,
            "window_start": format_utc(at(start)),
        }
        return self.come(UPDATES, msgspec.json.encode(told))

    def tick(
        self,
        now: str,
        through: str | None = None,
        speaking: SpeedEpoch = SpeedEpoch(SALES.epoch),
        **said: int,
    ) -> list[Alert]:
        """What is told when a tick comes; all was read through then, or through `through`."""
        self.ticks += 1
        self.now = to_millis(at(now))
        reached = to_millis(at(now) if through is None else at(through))
        flips = max((one.generation for _, one in self.world.pointers), default=0)
        families = {SALES.name, *said}
        tick = Tick(
            n=self.ticks,
            at=to_millis(at(now)),
            through=dict.fromkeys(families, reached),
            epoch=dict.fromkeys(families, speaking),
            flips=dict.fromkeys(families, flips),
            rules_until=1,
        )
        return self.come(TICKS, tick.value)

    def come(self, topic: str, *values: bytes) -> list[Alert]:
        """What is told of one transaction's records."""
        for value in values:
            self.evaluator.process(Input(topic, self.partition, 0, 0, None, value))
        return self.take(self.evaluator.before_commit())

    def resolve(self, alert: Alert, because: str = "the till was off") -> list[Alert]:
        """What is told when a person resolves the alert."""
        resolution = AlertResolution(
            alert_id=alert.alert_id,
            rule_id=alert.rule_id,
            store_id=alert.store_id,
            subject=alert.subject,
            at=self.now,
            by="ann",
            because=because,
        )
        return self.come(RESOLUTIONS, resolution.value)

    def take(self, outputs: Iterable[Output]) -> list[Alert]:
        """The outputs are committed; the alerts among them."""
        found = []
        for one in outputs:
            assert one.partition == self.partition
            if one.topic == ALERTS:
                found.append(decode_alert(one.value or b""))
            else:
                assert one.topic == STATE_TOPIC
                self.state.append(Input(one.topic, one.partition, 0, 0, one.key, one.value))
        self.alerts += found
        return found


def said(alerts: Iterable[Alert]) -> list[tuple[str, str, str]]:
    """Of each message edge, state, and the start of its window's hour and minute (UTC)."""
    return [(one.edge, one.state, one.window.start[11:16]) for one in alerts]


def sold(one: Watched, time: str, events: int, generation: int | None = None) -> None:
    """So many receipts of a quarter hour of DAY: of the speed layer, or of a generation."""
    more = {} if generation is None else {"generation": generation}
    one.world.rows.append(sale(one.store, f"{DAY}T{time}", events, 100 * events, **more))


Watching = Callable[..., Watched]
