"""What is known of a store's windows, made once for all rules that read the same of them."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

from serving.alerts.evaluator.calendar import WindowSpan, open_windows
from serving.alerts.evaluator.facts import KnownBy, WindowCells, facts_of, with_shelf
from serving.alerts.evaluator.grains import grain_spans, with_totals
from serving.alerts.evaluator.memory import PartitionMemory
from serving.alerts.evaluator.moment import ViewsMoment
from serving.alerts.evaluator.rule_stores import names_stores
from serving.alerts.evaluator.shelves import WindowShelves
from serving.alerts.evaluator.stores import expected_key
from serving.alerts.evaluator.usual import usual_of
from serving.alerts.evaluator.version_metrics import VersionMetrics, reading_of
from serving.query.formulas import StockAt
from tally.alerts.comparison import holds
from tally.alerts.ranked import RankedFacts
from tally.alerts.rule import Condition, Rule, RuleVersion
from tally.alerts.verdict import LEAVES, WindowFacts
from tally.algebra.shelf import Reached
from tally.windows import WINDOW_MILLIS

_NEVER = 1 << 62


class KnownWindows(NamedTuple):
    """The windows of a local day that have begun, as versions of one reading know them.

    `ranked`: the different facts; `places`: a byte for each window, which of them are its own.
    `complete`: a byte for each window, 1 where generations serve it. No day has as many windows as
    a byte has values. `totals`: of a rule that is judged by totals those that are judged, by the
    number of the window.
    """

    start: int
    cells: tuple[WindowCells, ...]
    ranked: RankedFacts
    places: bytes
    complete: bytes
    totals: Mapping[int, WindowCells] = {}

    @classmethod
    def of(cls, start: int, read: Iterable[tuple[WindowCells, WindowFacts]]) -> "KnownWindows":
        """From each window what was read and is known of it, in their order."""
        cells, facts = zip(*read, strict=True)
        ranked = RankedFacts.of(facts)
        numbers = {one: number for number, one in enumerate(ranked.facts)}
        places = bytes(numbers[one] for one in facts)
        return cls(start, cells, ranked, places, bytes(one.is_complete for one in cells))

    def verdicts(self, rule: Rule) -> bytes:
        """The verdict on each window, as tally/alerts/verdict.py has them."""
        # Asked once for what is alike: most quarter hours of a night are.
        told = self.ranked.verdicts(rule)
        return self.places.translate(told.ljust(256, LEAVES))

    def raises(self, rule: Rule) -> bool:
        """Whether any of those verdicts is RAISES."""
        return self.ranked.raises(rule)

    def judged_cells(self, place: int) -> WindowCells:
        """What is judged in the window of that number: its own cells, or a total."""
        return self.totals.get(place, self.cells[place])

    def place(self, window: int) -> int:
        """The number of the window that begins then, ms since 1970 (UTC)."""
        return (window - self.start) // WINDOW_MILLIS

    def with_article(self, stock: StockAt, subject: str) -> "KnownWindows":
        """The same with what there was of one article."""
        each = [cells.metric.shelves for cells in self.cells]
        reached = [one.get(subject) if one else None for one in each]
        # Nothing moves in most windows: what is alike is made once.
        keys = [*zip(self.places, reached, strict=True)]
        made: dict[Hashable, WindowFacts] = {}
        for at, one in {*keys}:
            made[at, one] = with_shelf(self.ranked.facts[at], stock, one)
        ranked = RankedFacts.of(made.values())
        numbers = {one: number for number, one in enumerate(ranked.facts)}
        places = {key: numbers[facts] for key, facts in made.items()}
        return self._replace(
            ranked=ranked,
            places=bytes(places[key] for key in keys),
            complete=bytes(map(_is_settled, self.complete, each, reached)),
        )


class KnownDays:
    """What is known of the days of stores by the tick that a partition has."""

    def __init__(self, memory: PartitionMemory, moment: ViewsMoment) -> None:
        self._memory, self._moment = memory, moment
        self._known: dict[Hashable, KnownWindows] = {}

    def of(
        self, version: RuleVersion, metrics: VersionMetrics, store_id: str, span: WindowSpan
    ) -> KnownWindows:
        """The windows of a day that was read, but for what other rules say of them."""
        rule = version.rule
        read = self._read(rule, metrics, store_id, span)
        if rule.grain == "quarter_hour":
            found = KnownWindows.of(span.start, read)
        else:
            days = self._moment.days(store_id)
            spans = grain_spans(rule.grain, days, days.day(span.start))
            each = [*with_totals(rule, metrics, spans, [*read])]
            pairs = ((one.cells, one.facts) for one in each)
            found = KnownWindows.of(span.start, pairs)
            totals = enumerate(one.total for one in each)
            found = found._replace(totals={place: one for place, one in totals if one})
        self._known[reading_of(rule), store_id, span.start] = found
        return found

    def find(self, reading: Hashable, store_id: str, start: int) -> KnownWindows | None:
        """The same where it was made before, for whichever rule; `reading`: that of its version."""
        return self._known.get((reading, store_id, start))

    def of_article(
        self, known: KnownWindows, stock: StockAt, of: tuple[RuleVersion, str, str]
    ) -> KnownWindows:
        """The same of one article; `of`: the version, the store, and the subject."""
        version, store_id, subject = of
        shelves = known.cells[0].metric.shelves
        # Most articles stand as many others do, all day.
        steps = shelves.day.steps(subject) if shelves else ()
        key = (reading_of(version.rule), store_id, known.start, steps)
        if key not in self._known:
            self._known[key] = known.with_article(stock, subject)
        return self._known[key]

    def calling(
        self, condition: Condition, metrics: VersionMetrics, store_id: str, span: WindowSpan
    ) -> Iterator[str]:
        """Subjects of which there was so little, or so much, in a window that it holds."""
        stock = metrics.metric.stock
        assert stock is not None
        shelves = self._moment.shelves(metrics.metric, store_id, span)
        if shelves is not None:
            yield from shelves.calling(lambda lowest: bool(holds(condition, stock.exactly(lowest))))

    def _read(
        self, rule: Rule, metrics: VersionMetrics, store_id: str, span: WindowSpan
    ) -> Iterator[tuple[WindowCells, WindowFacts]]:
        by = KnownBy.of(self._memory.tick, rule, metrics)
        begun = self._begun(metrics, store_id)
        expected = self._expected(rule, store_id, span)
        read = [self._moment.cells(one, store_id, span) for one in metrics.all]
        usual = self._moment.usual(usual_of(rule, store_id, span.start))
        beside = len(metrics.minimum)
        for start, first, *rest in zip(span.windows, *read, strict=True):
            minimum, further = tuple(rest[:beside]), tuple(rest[beside:])
            cells = WindowCells(first, minimum, usual.get(start), further)
            # What nobody has sent before the first record is no silence. What is on a shelf is
            # there, whether anything comes or not.
            has_come = first.cell.events or first.cell.parts or first.shelves
            is_exempt = start < begun and not has_come and start not in expected
            yield cells, facts_of(rule, metrics, cells, by, is_exempt)

    def _expected(self, rule: Rule, store_id: str, span: WindowSpan) -> frozenset[int]:
        """Starts of the windows in which a store should have sent, whether it ever has or not."""
        key = expected_key(rule.family or "", store_id)
        since = self._memory.silent_from.get(key) if names_stores(rule) else None
        if since is None:
            return frozenset()
        whole = WindowSpan(max(since, span.start), span.end)
        return open_windows(self._moment.days(store_id), whole)

    def _begun(self, metrics: VersionMetrics, store_id: str) -> int:
        """Start of the first window in which the store has begun to send, in all families."""
        begun = self._memory.silent_from
        # Who has never sent of a family is not silent in it.
        return max(begun.get((one, store_id), _NEVER) for one in metrics.families)


def _is_settled(is_complete: int, shelves: WindowShelves | None, reached: Reached | None) -> bool:
    """Whether nothing that is still to come decides what there was of an article."""
    is_unknown = reached is None or reached.level is None
    # It may have been counted before what was read: then what was told of it stays.
    return bool(is_complete) and not (is_unknown and shelves and shelves.day.is_partial)
