"""The facts of a store's windows, computed once for all rules that read the same of them."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from datetime import date
from itertools import product
from typing import NamedTuple

from alerting.episodes.ranked import SortedFacts
from alerting.episodes.verdict import LEAVES, WindowFacts
from alerting.evaluate.scope.stores import missing_store_key
from alerting.evaluate.snapshot.calendar import WindowSpan, open_windows
from alerting.evaluate.snapshot.grains import grain_spans, with_totals
from alerting.evaluate.snapshot.rule_readings import (
    VersionMetrics,
    build_reading_key,
    has_store_list,
)
from alerting.evaluate.snapshot.shelves import WindowShelves
from alerting.evaluate.snapshot.snapshot_reader import SnapshotReader
from alerting.evaluate.snapshot.window_facts import (
    EvaluationTick,
    WindowCells,
    build_facts,
    with_shelf,
)
from alerting.evaluate.state.memory import EvaluatedDay, FamilyDay, PartitionMemory
from alerting.rules.conditions import matches_condition
from alerting.rules.rule import Condition, Rule, RuleVersion
from serving.metrics.formulas import StockAt
from tally.algebra.shelf import WindowStock
from tally.time.windows import WINDOW_MILLIS

_NEVER = 1 << 62
_UNEVALUATED = EvaluatedDay()


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
    def from_windows(
        cls, start: int, read: Iterable[tuple[WindowCells, WindowFacts]]
    ) -> "DayFacts":
        """The windows from the cells and facts of each, in order of time."""
        cells, facts = zip(*read, strict=True)
        ranked = SortedFacts.from_facts(facts)
        numbers = {distinct: number for number, distinct in enumerate(ranked.facts)}
        places = bytes(numbers[window_facts] for window_facts in facts)
        return cls(start, cells, ranked, places, bytes(window.is_covered for window in cells))

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

    def compute(
        self, version: RuleVersion, metrics: VersionMetrics, store_id: str, span: WindowSpan
    ) -> DayFacts:
        """The windows of a day that was read, without the effect of other rules on them."""
        rule = version.rule
        read = self._read_windows(rule, metrics, store_id, span)
        if rule.grain == "quarter_hour":
            found = DayFacts.from_windows(span.start, read)
        else:
            days = self._snapshot.days(store_id)
            spans = grain_spans(rule.grain, days, days.day(span.start))
            windows = [*with_totals(rule, metrics, spans, [*read])]
            pairs = ((window.cells, window.facts) for window in windows)
            found = DayFacts.from_windows(span.start, pairs)
            totals = enumerate(window.total for window in windows)
            found = found._replace(totals={place: total for place, total in totals if total})
        return self._keep((build_reading_key(rule), store_id, span.start), found)

    def find(self, reading: Hashable, store_id: str, start: int) -> DayFacts | None:
        """The cached windows of a day for any rule with this reading, or None.

        `reading`: the key that build_reading_key() gives for the version.
        """
        return self._cache.get((reading, store_id, start))

    def article_facts(
        self, known: DayFacts, stock: StockAt, of: tuple[RuleVersion, str, str]
    ) -> DayFacts:
        """The windows of a day for one article; `of`: the version, the store, and the subject."""
        version, store_id, subject = of
        shelves = known.cells[0].metric.shelves
        # Cached by steps: most articles have the same levels all day as many others.
        steps = shelves.day.steps_for(subject) if shelves else ()
        key = (build_reading_key(version.rule), store_id, known.start, steps)
        if key not in self._cache:
            self._keep(key, known.with_article(stock, subject))
        return self._cache[key]

    def matching_subjects(
        self, condition: Condition, metrics: VersionMetrics, store_id: str, span: WindowSpan
    ) -> Iterator[str]:
        """The subjects whose stock in a window fulfils the condition."""
        stock = metrics.metric.stock
        assert stock is not None
        shelves = self._snapshot.shelves(metrics.metric, store_id, span)
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
        uncovered = [place for place, covered in enumerate(windows.covered) if not covered]
        first, last = windows.cells[uncovered[0]], windows.cells[uncovered[-1]]
        # Checked once and not for each window: nothing of the current day is settled.
        days = [window.metric.cell.slot.start.date() for window in (first, last)]
        families = {family for cell in first.all for family, _ in cell.generations}
        evaluated_days = (
            self._find_day(*family_day) for family_day in product(families, _days(*days))
        )
        if not any(day.is_settled for day in evaluated_days):
            return windows.covered
        return bytes(
            covered or self._is_day_final(cells)
            for covered, cells in zip(windows.covered, windows.cells, strict=True)
        )

    def _is_day_final(self, window: WindowCells) -> bool:
        evaluated_days: list[EvaluatedDay] = []
        for cell in window.all:
            date_utc = cell.cell.slot.start.date()
            evaluated_days += (self._find_day(family, date_utc) for family, _ in cell.generations)
        # If all days are whole, something else is missing, and it may still arrive.
        return any(day.is_settled for day in evaluated_days) and all(
            day.is_settled or day.is_whole for day in evaluated_days
        )

    def _find_day(self, family: str, day: date) -> EvaluatedDay:
        key = family, day
        return self._current_days.get(key) or self._memory.evaluated_days.get(key) or _UNEVALUATED

    def _read_windows(
        self, rule: Rule, metrics: VersionMetrics, store_id: str, span: WindowSpan
    ) -> Iterator[tuple[WindowCells, WindowFacts]]:
        by = EvaluationTick.from_tick(self._memory.tick, rule, metrics)
        begun = self._first_sent_window(metrics, store_id)
        expected = self._mandatory_windows(rule, store_id, span)
        windows = self._snapshot.windows(rule, metrics, store_id, span)
        for start, cells in zip(span.windows, windows, strict=True):
            first = cells.metric
            # A store without any record yet is not silent, so earlier windows are exempt. A level
            # on a shelf stands, even where no record arrives.
            has_come = first.cell.events or first.cell.parts or first.shelves
            is_exempt = start < begun and not has_come and start not in expected
            yield cells, build_facts(rule, metrics, cells, by, is_exempt)

    def _mandatory_windows(self, rule: Rule, store_id: str, span: WindowSpan) -> frozenset[int]:
        """The starts of the windows in which a store should send, even if it never has."""
        key = missing_store_key(rule.family or "", store_id)
        since = self._memory.silent_from.get(key) if has_store_list(rule) else None
        if since is None:
            return frozenset()
        whole = WindowSpan(max(since, span.start), span.end)
        return open_windows(self._snapshot.days(store_id), whole)

    def _first_sent_window(self, metrics: VersionMetrics, store_id: str) -> int:
        """The start of the first window from which on the store sends in all families."""
        begun = self._memory.silent_from
        # A store that has never sent data of a family is not silent in it.
        return max(begun.get((family, store_id), _NEVER) for family in metrics.families)


def _is_stock_final(
    is_covered: int, shelves: WindowShelves | None, reached: WindowStock | None
) -> bool:
    """Whether no later record can change what is known of an article's stock in the window."""
    is_unknown = reached is None or reached.level is None
    # The article may have been counted before the rows that were read: earlier alerts of it stay.
    return bool(is_covered) and not (is_unknown and shelves and shelves.day.is_partial)


def _days(first: date, last: date) -> Iterator[date]:
    return map(date.fromordinal, range(first.toordinal(), last.toordinal() + 1))
