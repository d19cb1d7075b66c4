"""What is known of a store's windows, made once for all rules that read the same of them."""

from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

from serving.alerts.evaluator.calendar import WindowSpan
from serving.alerts.evaluator.facts import KnownBy, WindowCells, facts_of, with_shelf
from serving.alerts.evaluator.memory import PartitionMemory
from serving.alerts.evaluator.moment import ViewsMoment
from serving.alerts.evaluator.shelves import WindowShelves
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
    a byte has values.
    """

    start: int
    cells: tuple[WindowCells, ...]
    ranked: RankedFacts
    places: bytes
    complete: bytes

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
        read = self._read(version.rule, metrics, store_id, span)
        key = reading_of(version.rule), store_id, span.start
        self._known[key] = found = KnownWindows.of(span.start, read)
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
        read = [self._moment.cells(one, store_id, span) for one in metrics.all]
        usual = self._moment.usual(usual_of(rule, store_id, span.start))
        for start, first, *rest in zip(span.windows, *read, strict=True):
            cells = WindowCells(first, (*rest,), usual.get(start))
            # What nobody has sent before the first record is no silence. What is on a shelf is
            # there, whether anything comes or not.
            has_come = first.cell.events or first.cell.parts or first.shelves
            is_exempt = start < begun and not has_come
            yield cells, facts_of(rule, metrics, cells, by, is_exempt)

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
