"""The facts of a store's windows, computed once for all rules that read the same of them.

Totals are made of quarter hours: the parts are merged first and the metric is derived from the
merged parts, so a day's share is not a mean of shares.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import product
from typing import NamedTuple

from msgspec import structs

from alerting.alert.ids import Chain
from alerting.episodes.verdict import LEAVES, FurtherFacts, SortedFacts, WindowFacts
from alerting.evaluate.scope.calendar import WindowSpan, grain_spans, open_windows
from alerting.evaluate.scope.rule_set import VersionMetrics, VersionReading, has_store_list
from alerting.evaluate.scope.scope import missing_store_key
from alerting.evaluate.snapshot.snapshot_reader import SnapshotReader
from alerting.evaluate.snapshot.stock import WindowShelves
from alerting.evaluate.snapshot.window_facts import (
    EvaluationTick,
    MetricCell,
    WindowCells,
    build_facts,
    cell_value,
    further_value,
    has_data,
    meets_minimum,
    with_shelf,
)
from alerting.evaluate.state.memory import EvaluatedDay, FamilyDay, PartitionMemory
from alerting.rules.conditions import matches_condition
from alerting.rules.rule import Rule
from serving.cells.cells import join_cells
from serving.questions.catalogue import Metric, StockAt
from tally.algebra.level import WindowStock
from tally.time.windows import ONE_DAY, WINDOW_MILLIS, days_until

_NEVER = 1 << 62
_UNEVALUATED = EvaluatedDay()


class GrainWindow(NamedTuple):
    """A window as a rule with a grain evaluates it; `total` is None where no total is evaluated."""

    cells: WindowCells
    facts: WindowFacts
    total: WindowCells | None = None


def _with_totals(
    rule: Rule, metrics: VersionMetrics, spans: Sequence[WindowSpan], read: Iterable[GrainWindow]
) -> Iterator[GrainWindow]:
    """Each window with the facts of a total where one is evaluated, and exempt facts elsewhere."""
    begins = {grain_span.start: grain_span for grain_span in spans}
    running: _RunningTotal | None = None
    span = WindowSpan(0, 0)
    for window in read:
        start, facts = window.cells.start, window.facts
        if start in begins:
            running, span = _RunningTotal(rule, metrics), begins[start]
        if running is not None and start < span.end:
            running.add(window)
            if rule.grain == "since_opening" or start == span.windows[-1]:
                yield GrainWindow(window.cells, running.facts(), running.cells)
                continue
        exempt = WindowFacts(phase=facts.phase, value=None, is_exempt=True, further=facts.further)
        yield GrainWindow(window.cells, exempt)


class _RunningTotal:
    """A total to which windows are added one by one."""

    def __init__(self, rule: Rule, metrics: VersionMetrics) -> None:
        self._rule, self._metrics = rule, metrics
        self._each: list[WindowFacts] = []
        self._parts: list[WindowCells] = []
        self._cells: tuple[MetricCell, ...] = ()
        # For each metric, whether it lacks a window for which data may still arrive.
        self._gaps = [False] * len(metrics.all)

    def add(self, window: GrainWindow) -> None:
        """Add the next window."""
        self._each.append(window.facts)
        self._parts.append(window.cells)
        cells, is_covered = window.cells.all, window.facts.phase == "covered"
        pairs = zip(self._gaps, cells, strict=True)
        self._gaps = [gap or not (is_covered or has_data(cell.cell)) for gap, cell in pairs]
        if self._cells:
            triples = zip(self._metrics.all, self._cells, cells, strict=True)
            cells = tuple(_merge_cells(*triple) for triple in triples)
        self._cells = cells

    @property
    def cells(self) -> WindowCells:
        """The merged parts of all windows."""
        own_count = 1 + len(self._metrics.minimum)
        metric, *minimum = self._cells[:own_count]
        further = self._cells[own_count:]
        return WindowCells(metric, (*minimum,), None, further, tuple(self._parts))

    def facts(self) -> WindowFacts:
        """The facts of the total; one unknown window makes the total unknown."""
        phases = {facts.phase for facts in self._each}
        cells, own_count = self.cells, 1 + len(self._metrics.minimum)
        value = cell_value(self._rule, self._metrics.metric, cells.metric.cell)
        return structs.replace(
            self._each[-1],
            phase="open" if "open" in phases else max(phases, key=("covered", "closed").index),
            value=None if self._is_unknown(self._gaps[:own_count]) else value,
            is_known=all(facts.is_known for facts in self._each),
            meets_minimum=meets_minimum(self._metrics, cells),
            is_exempt=any(facts.is_exempt for facts in self._each),
            further=tuple(map(self._further, range(len(cells.further)))),
        )

    def _further(self, place: int) -> FurtherFacts:
        number = 1 + len(self._metrics.minimum) + place
        is_unknown = self._is_unknown(self._gaps[number : number + 1])
        value = further_value(self._metrics.further[place], self._cells[number].cell)
        is_known = all(facts.further[place].is_known for facts in self._each)
        return FurtherFacts(None if is_unknown else value, is_known)

    def _is_unknown(self, gaps: Sequence[bool]) -> bool:
        # A rule that raises on silence counts missing data as nothing.
        return self._rule.on_silence == "hold" and any(gaps)


def _merge_cells(metric: Metric, before: MetricCell, added: MetricCell) -> MetricCell:
    return MetricCell(
        join_cells(metric.families, [before.cell, added.cell]),
        before.is_covered and added.is_covered,
        before.is_hidden or added.is_hidden,
        added.generations,
    )


class DayFacts(NamedTuple):
    """The windows of a local day that have begun, for versions that read the same.

    `ranked`: the distinct facts. `fact_numbers`: a byte for each window, the number of its facts;
    no day has as many windows as a byte has values. `covered`: a byte for each window, 1 where
    generations cover it. `totals`: the evaluated totals by window number, for a rule with a grain.
    `final`: a byte for each window, 1 where it is covered, or its day will never be covered whole.
    """

    start: int
    cells: tuple[WindowCells, ...]
    ranked: SortedFacts
    fact_numbers: bytes
    covered: bytes
    totals: Mapping[int, WindowCells] = {}
    final: bytes = b""

    @classmethod
    def from_windows(cls, start: int, read: Iterable[GrainWindow]) -> "DayFacts":
        """The windows in order of time."""
        cells, facts, totals = zip(*read, strict=True)
        ranked = SortedFacts.from_facts(facts)
        numbers = {distinct: number for number, distinct in enumerate(ranked.facts)}
        places = bytes(numbers[window_facts] for window_facts in facts)
        covered = bytes(window.is_covered for window in cells)
        evaluated = {place: total for place, total in enumerate(totals) if total}
        return cls(start, cells, ranked, places, covered, evaluated)

    def verdicts(self, rule: Rule) -> bytes:
        """The verdict on each window, a byte each as in alerting/episodes/verdict.py."""
        # Evaluated once for equal facts: most quarter hours of a night are equal.
        verdicts = self.ranked.verdicts(rule)
        return self.fact_numbers.translate(verdicts.ljust(256, LEAVES))

    def raises(self, rule: Rule) -> bool:
        """Whether the verdict on any window is RAISES."""
        return self.ranked.raises(rule)

    def cells_at(self, place: int) -> WindowCells:
        """The cells that are evaluated in the window with this number: its own, or a total's."""
        return self.totals.get(place, self.cells[place])

    def window_number(self, window: int) -> int:
        """The number of the window that begins at `window`, ms since 1970 (UTC)."""
        return (window - self.start) // WINDOW_MILLIS

    def with_article(self, stock: StockAt, subject: str) -> "DayFacts":
        """The same windows with the stock of one article added to their facts."""
        shelves = [cells.metric.shelves for cells in self.cells]
        reached = [shelf.levels(subject) if shelf else None for shelf in shelves]
        # In most windows nothing moves, so equal facts are made once.
        keys = [*zip(self.fact_numbers, reached, strict=True)]
        facts_by_key: dict[Hashable, WindowFacts] = {}
        for place, level in {*keys}:
            facts_by_key[place, level] = with_shelf(self.ranked.facts[place], stock, level)
        ranked = SortedFacts.from_facts(facts_by_key.values())
        numbers = {distinct: number for number, distinct in enumerate(ranked.facts)}
        places = {key: numbers[facts] for key, facts in facts_by_key.items()}
        return self._replace(
            ranked=ranked,
            fact_numbers=bytes(places[key] for key in keys),
            covered=bytes(map(_is_stock_final, self.covered, shelves, reached)),
        )


class FactsCache:
    """The facts of store days by a partition's current tick, cached by what is read.

    `current_days`: the generations by which this pass evaluates days; the memory has those of the
    other days.
    """

    def __init__(
        self,
        memory: PartitionMemory,
        snapshot: SnapshotReader,
        current_days: Mapping[FamilyDay, EvaluatedDay],
    ) -> None:
        self._memory, self._snapshot, self._current_days = memory, snapshot, current_days
        self._cache: dict[Hashable, DayFacts] = {}

    def compute(self, reading: VersionReading, store_id: str, span: WindowSpan) -> DayFacts:
        """The windows of a day that was read, without the effect of other rules on them."""
        windows = self._read_windows(reading, store_id, span)
        if reading.rule.grain != "quarter_hour":
            days = self._snapshot.days(store_id)
            spans = grain_spans(reading.rule.grain, days, days.day(span.start))
            windows = _with_totals(reading.rule, reading.metrics, spans, windows)
        found = DayFacts.from_windows(span.start, windows)
        return self._keep((reading.key, store_id, span.start), found)

    def find(self, reading_key: Hashable, store_id: str, start: int) -> DayFacts | None:
        """The cached windows of a day for any rule with this key of its reading, or None."""
        return self._cache.get((reading_key, store_id, start))

    def article_facts(self, known: DayFacts, reading: VersionReading, chain: Chain) -> DayFacts:
        """The windows of a day for one article, that of the chain."""
        stock = reading.metrics.metric.stock
        assert stock is not None
        shelves = known.cells[0].metric.shelves
        # Cached by steps: most articles have the same levels all day as many others.
        steps = shelves.day.steps_for(chain.subject) if shelves else ()
        key = (reading.key, chain.store_id, known.start, steps)
        if key not in self._cache:
            self._keep(key, known.with_article(stock, chain.subject))
        return self._cache[key]

    def matching_subjects(
        self, reading: VersionReading, store_id: str, span: WindowSpan
    ) -> Iterator[str]:
        """The subjects whose stock in a window fulfils the rule's condition."""
        metric, condition = reading.metrics.metric, reading.rule.condition
        stock = metric.stock
        if stock is None or condition is None:
            return
        shelves = self._snapshot.shelves(metric, store_id, span)
        if shelves is not None:
            yield from shelves.matching_subjects(
                lambda lowest: bool(matches_condition(condition, stock.exactly(lowest)))
            )

    def _keep(self, key: Hashable, found: DayFacts) -> DayFacts:
        self._cache[key] = found._replace(final=self._final_flags(found))
        return self._cache[key]

    def _final_flags(self, windows: DayFacts) -> bytes:
        """A byte for each window, 1 where it is covered, or its day is settled.

        A settled day (EvaluatedDay.is_settled) is one that no rebuild will ever cover whole,
        because a later day is covered already: a gap in the topics limits for good what generations
        cover of its day, and the day on which a family began is covered only from its first arrival
        on.
        """
        # The usual case: the day is covered whole.
        if 0 not in windows.covered:
            return windows.covered
        pairs = [*zip(windows.covered, windows.cells, strict=True)]
        uncovered = [cells for covered, cells in pairs if not covered]
        # Checked once and not for each window: nothing of the current day is settled.
        ends = uncovered[0], uncovered[-1]
        first, last = (cells.metric.cell.slot.start.date() for cells in ends)
        families = {family for cell in uncovered[0].all for family, _ in cell.generations}
        keys = product(families, days_until(first, last + ONE_DAY))
        if not any(self._find_day(*family_day).is_settled for family_day in keys):
            return windows.covered
        return bytes(covered or self._is_day_final(cells) for covered, cells in pairs)

    def _is_day_final(self, window: WindowCells) -> bool:
        evaluated_days = [
            self._find_day(family, cell.cell.slot.start.date())
            for cell in window.all
            for family, _ in cell.generations
        ]
        # If all days are whole, something else is missing, and it may still arrive.
        return any(day.is_settled for day in evaluated_days) and all(
            day.is_settled or day.is_whole for day in evaluated_days
        )

    def _find_day(self, family: str, day: date) -> EvaluatedDay:
        key = family, day
        return self._current_days.get(key) or self._memory.evaluated_days.get(key) or _UNEVALUATED

    def _read_windows(
        self, reading: VersionReading, store_id: str, span: WindowSpan
    ) -> Iterator[GrainWindow]:
        rule, metrics, silent_from = reading.rule, reading.metrics, self._memory.silent_from
        by = EvaluationTick.from_tick(self._memory.tick, rule, metrics)
        # A store that has never sent data of a family is not silent in it.
        begun = max(silent_from.get((family, store_id), _NEVER) for family in metrics.families)
        key = missing_store_key(rule.family or "", store_id)
        since = silent_from.get(key, _NEVER) if has_store_list(rule) else _NEVER
        # The windows in which the store should send, even if it never has.
        silent = WindowSpan(max(since, span.start), span.end)
        expected = open_windows(self._snapshot.days(store_id), silent)
        windows = self._snapshot.windows(rule, metrics, store_id, span)
        for start, cells in zip(span.windows, windows, strict=True):
            first = cells.metric
            # A store without any record yet is not silent, so earlier windows are exempt. A level
            # on a shelf stands, even where no record arrives.
            has_come = first.cell.events or first.cell.parts or first.shelves
            is_exempt = start < begun and not has_come and start not in expected
            yield GrainWindow(cells, build_facts(rule, metrics, cells, by, is_exempt))


def _is_stock_final(
    is_covered: int, shelves: WindowShelves | None, reached: WindowStock | None
) -> bool:
    """Whether no later record can change what is known of an article's stock in the window."""
    is_unknown = reached is None or reached.level is None
    # The article may have been counted before the rows that were read: earlier alerts of it stay.
    return bool(is_covered) and not (is_unknown and shelves and shelves.day.is_partial)
