"""The shipped evaluator over drawn years: what it reads of a day is a slice of the plan, and all
else is its own."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alerting.alert.ids import Chain
from alerting.alert.resolution import AlertResolution
from alerting.episodes.verdict import LEAVES, RAISES
from alerting.evaluate.scope.rule_set import VersionReading
from alerting.evaluate.snapshot.snapshot_reader import SnapshotReader
from alerting.evaluate.state.memory import EvaluatedDay, FamilyDay, PartitionMemory
from alerting.evaluate.step import ALERTS, RESOLUTIONS, RESTATEMENTS, TICKS, Evaluator
from alerting.evaluate.verdicts import verdicts as verdicts_module
from alerting.rules.rule import Rule
from runtime.processor.step import Input, Output
from serving.storage.tables import Activity
from tally.alerts.message import Alert, decode_alert
from tally.alerts.tick import SpeedEpoch, Tick
from tally.config.settings import Settings
from tally.families.family import Family
from tally.families.generation import Generation
from tally.time.instants import format_utc
from tally.time.windows import WINDOW_MILLIS
from tests.support.evaluation.drawn_years import (
    A_DAY,
    ARTICLES,
    STORES,
    Plan,
    day_of,
    instant_of,
    midnight,
    number_of,
    start_of,
)
from tests.support.evaluation.evaluating import ListedRules
from tests.support.serving.serving_world import MemoryViews, World, flip

FAMILIES = ("sales", "traffic", "inventory")
# What an alert may be told as next.
NEXT = {
    "": {"provisional", "confirmed"},
    "provisional": {"confirmed", "retracted"},
    "confirmed": {"retracted"},
    "retracted": set[str](),
}
# Of one day in so many a gap bounds what is covered for good.
GAP_EVERY = 97


class DrawnWindows:
    """The windows of a day of a chain, as the evaluator knows them."""

    def __init__(self, start: int, drawn: bytes, family: str, *, is_covered: bool) -> None:
        self.start, self.family, self._drawn = start, family, drawn
        self.covered = self.final = bytes([is_covered]) * A_DAY
        self.cells = [None] * A_DAY

    def window_number(self, window: int) -> int:
        """The number of the window that begins then."""
        return (window - self.start) // WINDOW_MILLIS

    def cells_at(self, place: int) -> None:
        """Nothing was read: what is evaluated is drawn."""
        return self.cells[place]

    def verdicts(self, _rule: Rule) -> bytes:
        """A byte for each window; of those that are not over yet nothing is said."""
        return self._drawn.ljust(A_DAY, LEAVES)

    def raises(self, rule: Rule) -> bool:
        """Whether any of those is RAISES."""
        return RAISES in self.verdicts(rule)


@dataclass
class EvaluatedYears:
    """One partition, a tick at a time, as everybody who reads its topics sees it."""

    plan: Plan
    folder: Path
    alerts: list[Alert] = field(default_factory=list)
    kept: dict[bytes, bytes] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    now: int = 0

    def __post_init__(self) -> None:
        stores = self.folder / "stores.yaml"
        stores.write_text(self.plan.stores_file(), "utf-8")
        self.settings = Settings(stores_file=stores, default_timezone="UTC")
        self.views = MemoryViews(World())
        self.served: dict[date, Generation] = {}
        self.source = ListedRules(*self.plan.versions())
        self.by_delay = {one.delay: one.rule_id for one in self.plan.rules.values()}
        self.last: dict[str, Alert] = {}
        self.flips = self.ticks = 0
        self.evaluator = self._begun()

    def _begun(self) -> Evaluator:
        found = Evaluator(self.settings, self.views, self.source)
        found.restore([Input("s", 1, 0, 0, key, value) for key, value in self.kept.items()])
        return found

    def begin_again(self) -> None:
        """Another process goes on from the state as compaction leaves it."""
        self.evaluator.close()
        self.evaluator = self._begun()

    # What is read.

    async def active_stores(self, _family: Family) -> list[Activity]:
        """All of them, since the day before the first."""
        first = day_of(0) - timedelta(days=1)
        return [Activity(one, first, first) for one in STORES]

    async def current_generations(
        self, _family: Family, days: Sequence[date]
    ) -> dict[date, Generation]:
        """The generations of the days, alike in all families."""
        return {day: self.served[day] for day in days if day in self.served}

    def windows(self, reading: Any, of: tuple[str, str, int]) -> DrawnWindows:
        """The windows of a local day; `of`: store, subject, and the day's start."""
        store_id, subject, start = of
        rule = self.plan.rules[self.by_delay[reading[2]]]
        family = rule.family or ("inventory" if rule.kind == "stock" else "sales")
        chain = Chain(rule.rule_id, store_id, subject)
        first = number_of(start)
        over = number_of(self.now_instant - rule.delay * 1000)
        drawn = self.plan.raw.get(chain, bytearray())[first : min(first + A_DAY, over)]
        served = self.served.get(day_of(first))
        is_covered = served is not None and served.covered_until == instant_of(first + A_DAY)
        return DrawnWindows(start, bytes(drawn), family, is_covered=is_covered)

    @property
    def now_instant(self) -> int:
        """When the tick says that it is: a minute into a window, milliseconds since 1970."""
        return start_of(self.now) + 60_000

    # What comes.

    def run(self) -> None:
        """Every window, with all that happens in it; in the last days nothing more does."""
        plan, draw = self.plan, self.plan.random
        for self.now in range(1, plan.count + 2 * A_DAY):
            is_calm = self.now > plan.count - 3 * A_DAY
            if self.now % A_DAY == 4:
                self._rebuild(self.now - A_DAY)
            if not is_calm and draw.random() < 0.05:
                self._correct()
            if not is_calm and draw.random() < 1 / (9 * A_DAY):
                self._resolve()
            self._tick()
            if draw.random() < 1 / (40 * A_DAY):
                self.begin_again()
            if self.now % (plan.count // 6) == 0:
                self.sizes.append(sum(len(key) + len(one) for key, one in self.kept.items()))

    def _rebuild(self, window: int) -> None:
        day = day_of(window)
        until = {"covered_until": f"{day}T12:00"} if window // A_DAY % GAP_EVERY == 50 else {}
        self._publish(day, until)

    def _publish(self, day: date, until: Mapping[str, str]) -> None:
        self.flips += 1
        self.served[day] = flip(str(day), self.flips, f"{day}T00:00", 0, **until)

    def _correct(self) -> None:
        chain, windows = self.plan.corrected(self.now)
        days = {day_of(one) for one in windows}
        for day in sorted(days & self.served.keys()):
            covered = self.served[day].covered_until
            is_whole = covered == instant_of(number_of(midnight(day)) + A_DAY)
            self._publish(day, {} if is_whole else {"covered_until": f"{day}T12:00"})
        rule = self.plan.rules[chain.rule_id]
        families = {"stock": ("inventory", "sales"), "silence": (rule.family or "",)}
        metrics = {"visitors_in": "traffic"}
        family = families.get(rule.kind, (metrics.get(rule.metric or "", "sales"),))[0]
        for window in windows:
            start = format_utc(instant_of(window))
            told = {"family": family, "store_id": chain.store_id, "window_start": start}
            self._come(RESTATEMENTS, msgspec.json.encode(told))

    def _resolve(self) -> None:
        ended = {one.of for one in self.last.values() if one.state != "retracted"}
        standing = (one for one in self.last.values() if one.state != "retracted")
        left = [one for one in standing if one.edge == "raise" and one.alert_id not in ended]
        if not left:
            return
        one = self.plan.random.choice(left)
        chain = Chain(one.rule_id, one.store_id, one.subject)
        # The tick that is evaluated next is of this window.
        behind = number_of(midnight(date.fromisoformat(one.window.start[:10])))
        clock = int(one.window.start[11:13]) * 4 + int(one.window.start[14:16]) // 15
        window = max(self.now, behind + clock + 1)
        self.plan.resolved.setdefault(chain, set()).add(window)
        told = AlertResolution(
            alert_id=one.alert_id,
            rule_id=one.rule_id,
            store_id=one.store_id,
            subject=one.subject,
            at=self.now_instant,
            by="ann",
            because="drawn",
        )
        self._come(RESOLUTIONS, told.value)

    def _tick(self) -> None:
        self.ticks += 1
        tick = Tick(
            n=self.ticks,
            at=self.now_instant,
            through=dict.fromkeys(FAMILIES, self.now_instant),
            epoch=dict.fromkeys(FAMILIES, SpeedEpoch(1)),
            flips=dict.fromkeys(FAMILIES, self.flips),
            rules_until=1,
        )
        self._come(TICKS, tick.value)
        for output in self.evaluator.before_commit():
            self._take(output)
        while self.evaluator.busy_partitions:
            for output in self.evaluator.before_commit():
                self._take(output)

    def _come(self, topic: str, value: bytes) -> None:
        self.evaluator.process(Input(topic, 1, 0, 0, None, value))

    def _take(self, output: Output) -> None:
        if output.topic != ALERTS:
            key = output.key or b""
            if output.value is None:
                self.kept.pop(key, None)
            else:
                self.kept[key] = output.value
            return
        alert = decode_alert(output.value or b"")
        before = self.last.get(alert.alert_id)
        state = "" if before is None else before.state
        assert alert.state in NEXT[state], f"{alert.state} after {state or 'nothing'}: {alert}"
        self.last[alert.alert_id] = alert
        self.alerts.append(alert)


def patch_reading(years: EvaluatedYears, patch: pytest.MonkeyPatch) -> None:
    """What the evaluator knows of days is from now on what the years have drawn."""

    class DrawnDays:
        def __init__(
            self,
            memory: PartitionMemory,
            _snapshot: SnapshotReader,
            now: Mapping[FamilyDay, EvaluatedDay],
        ) -> None:
            self._memory, self._now = memory, now

        def find(self, reading: Any, store_id: str, start: int) -> DrawnWindows:
            return self._windows(reading, (store_id, "none", start))

        def article_facts(
            self, known: DrawnWindows, reading: VersionReading, chain: Chain
        ) -> DrawnWindows:
            return self._windows(reading.key, (chain.store_id, chain.subject, known.start))

        def matching_subjects(
            self, reading: VersionReading, store_id: str, span: Any
        ) -> Iterator[str]:
            for article in ARTICLES if reading.metrics.metric.stock is not None else ():
                of = store_id, f"item:{article}", span.start
                if RAISES in years.windows(reading.key, of).verdicts(reading.rule):
                    yield of[1]

        def _windows(self, reading: Any, of_chain: tuple[str, str, int]) -> DrawnWindows:
            known = years.windows(reading, of_chain)
            of = known.family, day_of(number_of(known.start))
            evaluated_day = self._now.get(of) or self._memory.evaluated_days.get(of)
            if evaluated_day is not None and evaluated_day.is_settled:
                known.final = b"\1" * A_DAY
            return known

    async def read(_snapshot: SnapshotReader, _wanted: object) -> None:
        await asyncio.sleep(0)

    patch.setattr(verdicts_module, "FactsCache", DrawnDays)
    patch.setattr(SnapshotReader, "read", read)
    patch.setattr(SnapshotReader, "missing", lambda _snapshot, _wanted: [])
    patch.setattr(years.views, "current_generations", years.current_generations)
    patch.setattr(years.views, "active_stores", years.active_stores)
