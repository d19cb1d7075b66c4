"""The facts by which a rule's version evaluates one window, and the rows that a message names."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from msgspec import structs

from alerting.episodes.fold import WindowVerdict
from alerting.episodes.verdict import FurtherFacts, WindowFacts
from alerting.evaluate.scope.calendar import WindowSpan
from alerting.evaluate.scope.rule_set import VersionMetrics, VersionReading
from alerting.evaluate.snapshot.stock import StockSpeedRows, WindowShelves
from alerting.rules.rule import Rule
from serving.cells.cells import Cell, common_source
from serving.questions.catalogue import Formula, Metric, StockAt, WeightedSum
from tally.alerts.baseline import ExactValue, WindowBaseline
from tally.alerts.message import ReadRows
from tally.alerts.tick import Tick, is_known, last_closed_end
from tally.algebra.level import WindowStock
from tally.families.generation import Generation
from tally.time.instants import to_millis


class FamilyDayRequest(NamedTuple):
    """Windows of one local day of a store, in one family."""

    family: str
    store_id: str
    span: WindowSpan


# The generation that serves a UTC day, for each family.
FamilyGenerations: TypeAlias = tuple[tuple[str, Generation | None], ...]


class MetricCell(NamedTuple):
    """One window of a metric.

    `cell`: the sums. `is_covered`: a generation covers the window, and nothing newer was read
    instead. `is_hidden`: privacy rules withhold the value. `generations`: the generation that
    serves its UTC day, for each family. A stock has `shelves` in place of sums, and `speed_rows`:
    the speed layer's rows that it depends on.
    """

    cell: Cell
    is_covered: bool
    is_hidden: bool
    generations: FamilyGenerations
    shelves: WindowShelves | None = None
    speed_rows: tuple[StockSpeedRows, ...] = ()


class WindowCells(NamedTuple):
    """The cells of one window that a version reads: its metric, and those of `minimum` and `and`.

    `baseline`: the usual value of the window for a baseline rule, if known. `parts`: the windows
    that a total is made of.
    """

    metric: MetricCell
    minimum: tuple[MetricCell, ...] = ()
    baseline: WindowBaseline | None = None
    further: tuple[MetricCell, ...] = ()
    parts: "tuple[WindowCells, ...]" = ()

    @property
    def own(self) -> tuple[MetricCell, ...]:
        """The cells of the metric and of `minimum`."""
        return (self.metric, *self.minimum)

    @property
    def all(self) -> tuple[MetricCell, ...]:
        """All cells, that of the metric first."""
        return (*self.own, *self.further)

    @property
    def is_covered(self) -> bool:
        """Whether generations cover the window in all families."""
        return all(cell.is_covered for cell in self.all)

    @property
    def start(self) -> int:
        """The start of the window, milliseconds since 1970 (UTC)."""
        return to_millis(self.metric.cell.slot.start)


class DayWindow(NamedTuple):
    """One evaluated window; `cells` is None where no version evaluates it.

    `counts`: False inside an hour or a day that is evaluated by its total.
    """

    verdict: WindowVerdict
    reading: VersionReading | None = None
    cells: WindowCells | None = None
    counts: bool = True

    @property
    def is_covered(self) -> bool:
        """Whether the window is evaluated, and generations cover everything that it needs."""
        cells = self.cells
        return self.counts and self.verdict.is_covered and (cells is None or cells.is_covered)


class EvaluationTick(NamedTuple):
    """The tick by which a version evaluates; `closed`: the end of what it closes, in ms (UTC)."""

    tick: Tick
    closed: int

    @classmethod
    def from_tick(cls, tick: Tick, rule: Rule, metrics: VersionMetrics) -> "EvaluationTick":
        """The tick and its end for all windows of the version."""
        return cls(tick, last_closed_end(tick, metrics.families, rule.delay * 1000))


def build_facts(
    rule: Rule, metrics: VersionMetrics, cells: WindowCells, by: EvaluationTick, is_exempt: bool
) -> WindowFacts:
    """The facts of the window at that tick; for a stock all but the level of the article."""
    is_covered, start = cells.is_covered, cells.start
    is_closed = start < by.closed
    value = cell_value(rule, metrics.metric, cells.metric.cell)
    if rule.kind == "silence" and value:
        # The number of events makes no difference to a silence rule.
        value = 1
    return WindowFacts(
        phase="covered" if is_covered else "closed" if is_closed else "open",
        value=value,
        is_known=_is_publishable(rule, cells) and _has_all_rows(cells.own, by.tick, start),
        meets_minimum=meets_minimum(metrics, cells),
        is_exempt=is_exempt,
        baseline=cells.baseline,
        further=tuple(_further(metrics, cells, by.tick)),
    )


def cell_value(rule: Rule, metric: Metric, cell: Cell) -> ExactValue | None:
    """The value in the metric's unit, or the events for a silence rule; None if nothing arrived."""
    if metric.stock is not None or not has_data(cell):
        return None
    if rule.kind == "silence":
        # The speed layer does not count the events of derived families.
        return cell.events if cell.is_counted else int(bool(cell.parts))
    return exact_value(metric, cell)


def with_shelf(facts: WindowFacts, stock: StockAt, reached: WindowStock | None) -> WindowFacts:
    """The facts with the stock of one article: its lowest level, and its level at the end."""
    if reached is None or reached.level is None or reached.lowest is None:
        # The article was never counted, or its moves since the count are unknown.
        return structs.replace(facts, is_known=False)
    lowest, level = stock.exactly(reached.lowest), stock.exactly(reached.level)
    return structs.replace(facts, value=lowest, level=level)


def exact_value(metric: Metric, cell: Cell) -> ExactValue | None:
    """The value without any rounding; None where there is none, as for a mean of nothing."""
    above, below = ratio_parts(metric, cell)
    if metric.denominator is None or above is None:
        return above
    return Fraction(above) / below if below else None


def ratio_parts(metric: Metric, cell: Cell) -> tuple[ExactValue | None, ExactValue | None]:
    """The numerator and denominator of a metric, without any rounding; a sum is divided by 1."""
    above = _total(metric.numerator, cell)
    if metric.denominator is None or above is None:
        return above, 1
    return above, _total(metric.denominator, cell)


def list_read_rows(cells: WindowCells, tick: Tick) -> tuple[ReadRows, ...]:
    """The rows by which the window was evaluated, one entry for each family and UTC day."""
    found: dict[tuple[str, str], ReadRows] = {}
    # A total has the rows of its windows; those of one UTC day are added up.
    for part in cells.parts or (cells,):
        for rows in _list_window_rows(part, tick).values():
            place = rows.family, rows.day
            found[place] = _add_rows(found[place], rows) if place in found else rows
    return tuple(found.values())


def _list_window_rows(cells: WindowCells, tick: Tick) -> dict[str, ReadRows]:
    found: dict[str, ReadRows] = {}
    for metric_cell in cells.all:
        day, source = metric_cell.cell.slot.start.date(), common_source(metric_cell.cell.sources)
        for family, serving in metric_cell.generations:
            speaking = tick.epoch.get(family)
            epochs = (serving.epoch if serving else 0, speaking.epoch if speaking else 0)
            found[family] = ReadRows(
                family=family,
                day=day.isoformat(),
                generation=serving.generation if serving else None,
                epoch=epochs[0] if source == "batch" else max(epochs),
                # The number of events may be the very number that privacy rules withhold.
                events=0 if metric_cell.is_hidden else metric_cell.cell.events,
                source=source,
            )
    return found


def _add_rows(rows: ReadRows, other: ReadRows) -> ReadRows:
    return structs.replace(
        rows,
        epoch=max(rows.epoch, other.epoch),
        events=rows.events + other.events,
        source=common_source((rows.source, other.source)),
    )


def _further(metrics: VersionMetrics, cells: WindowCells, tick: Tick) -> Iterator[FurtherFacts]:
    """The facts of the metric of each condition in `and`."""
    for metric, metric_cell in zip(metrics.further, cells.further, strict=True):
        is_reportable = not metric_cell.is_hidden and _has_coverage(metric_cell.cell)
        is_known = is_reportable and _has_all_rows((metric_cell,), tick, cells.start)
        yield FurtherFacts(further_value(metric, metric_cell.cell), is_known)


def further_value(metric: Metric, cell: Cell) -> ExactValue | None:
    """The value without any rounding; None if nothing arrived."""
    return exact_value(metric, cell) if has_data(cell) else None


def has_data(cell: Cell) -> bool:
    """Whether any data of the cell has arrived."""
    return not cell.is_missing and bool(cell.known)


def _has_coverage(cell: Cell) -> bool:
    # Where nothing has arrived it is unknown whether sensors were there: `on_silence` decides.
    return cell.is_missing or cell.sensor_coverage.is_enough


def _has_all_rows(cells: Sequence[MetricCell], tick: Tick, start: int) -> bool:
    """Whether generations cover the window, or speed layer rows that are whole and in force."""
    if all(cell.is_covered for cell in cells):
        return True
    served = (
        (family, start, serving.epoch if serving else 0)
        for cell in cells
        for family, serving in cell.generations
    )
    # From the first such window on: a move that is missing there is missing in every later level.
    speed_rows = (
        (rows.family, min(rows.start, start), rows.epoch)
        for cell in cells
        for rows in cell.speed_rows
    )
    return all(is_known(tick, *read) for read in (*served, *speed_rows))


def _is_publishable(rule: Rule, cells: WindowCells) -> bool:
    """Whether the window's number may be published, and the sensors that count it were there."""
    cell = cells.metric.cell
    if rule.kind == "silence":
        # Missing sensors are what a silence rule looks for.
        return not cells.metric.is_hidden
    return _has_coverage(cell) and not any(metric_cell.is_hidden for metric_cell in cells.own)


def meets_minimum(metrics: VersionMetrics, cells: WindowCells) -> bool:
    """Whether the other metrics reach the values that the rule's `minimum` requires."""
    if not metrics.minimum:
        return True
    pairs = zip(metrics.minimum, cells.minimum, strict=True)
    values = (
        (least, exact_value(metric, metric_cell.cell) if metric_cell.cell.known else None)
        for (metric, least), metric_cell in pairs
    )
    return all(value is not None and value >= least for least, value in values)


def _total(formula: Formula, cell: Cell) -> ExactValue | None:
    rows = cell.parts.get(formula.family.name, {})
    if isinstance(formula, WeightedSum):
        # A weighted sum has only sums and counts, so the order of joining rows makes no difference.
        whole = sum(formula.raw_total(parts) for parts in rows.values())
        # total() is not used here because it divides and rounds.
        return whole if formula.divide_by == 1 else Fraction(whole, formula.divide_by)
    found = formula.total(formula.family.join_across_axes([*rows.values()]))
    return found if found is None or isinstance(found, int) else Fraction(found)
