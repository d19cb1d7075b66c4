"""What is known of one window to a rule's version, and what a message tells of it."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from msgspec import structs

from serving.alerts.evaluator.calendar import millis_of
from serving.alerts.evaluator.moment import JudgedCell
from serving.alerts.evaluator.version_metrics import VersionMetrics
from serving.query.catalogue import Metric
from serving.query.cells import Cell, source_of
from serving.query.formulas import Formula, StockAt, WeightedSum
from tally.alerts.comparison import ExactValue, Usual
from tally.alerts.message import ReadRows
from tally.alerts.rule import Rule
from tally.alerts.tick import Tick, closed_until, is_known
from tally.alerts.verdict import FurtherFacts, WindowFacts
from tally.algebra.shelf import Reached


class WindowCells(NamedTuple):
    """One window as a version reads it: of its metric, of each metric of `minimum` and of `and`.

    `usual`: of a baseline rule what is usual in it, where anybody knows. `parts`: of a total the
    windows that it is of.
    """

    metric: JudgedCell
    minimum: tuple[JudgedCell, ...] = ()
    usual: Usual | None = None
    further: tuple[JudgedCell, ...] = ()
    parts: "tuple[WindowCells, ...]" = ()

    @property
    def own(self) -> tuple[JudgedCell, ...]:
        """Those of the metric and of `minimum`."""
        return (self.metric, *self.minimum)

    @property
    def all(self) -> tuple[JudgedCell, ...]:
        """All of them, the metric first."""
        return (*self.own, *self.further)

    @property
    def is_complete(self) -> bool:
        """Whether generations cover it in all families."""
        return all(one.is_complete for one in self.all)

    @property
    def start(self) -> int:
        """Start of the window, milliseconds since 1970 (UTC)."""
        return millis_of(self.metric.cell.slot.start)


class KnownBy(NamedTuple):
    """The tick that is judged by, and the end of what it closes for a version, ms since 1970."""

    tick: Tick
    closed: int

    @classmethod
    def of(cls, tick: Tick, rule: Rule, metrics: VersionMetrics) -> "KnownBy":
        """What holds for all windows of the version."""
        return cls(tick, closed_until(tick, metrics.families, rule.delay * 1000))


def facts_of(
    rule: Rule, metrics: VersionMetrics, cells: WindowCells, by: KnownBy, is_exempt: bool
) -> WindowFacts:
    """What is known of the window at that tick; of a stock all but what there was."""
    is_complete, start = cells.is_complete, cells.start
    is_closed = start < by.closed
    value = value_of(rule, metrics.metric, cells.metric.cell)
    if rule.kind == "silence" and value:
        # How many there were makes no difference to it.
        value = 1
    return WindowFacts(
        phase="covered" if is_complete else "closed" if is_closed else "open",
        value=value,
        is_known=_can_be_told(rule, cells) and _is_whole(cells.own, by.tick, start),
        meets_minimum=meets_minimum(metrics, cells),
        is_exempt=is_exempt,
        usual=cells.usual,
        further=tuple(_further(metrics, cells, by.tick)),
    )


def value_of(rule: Rule, metric: Metric, cell: Cell) -> ExactValue | None:
    """The value in the metric's unit, of a silence rule the events; None where nothing has come."""
    if metric.stock is not None or not has_come(cell):
        return None
    if rule.kind == "silence":
        # Of derived families the speed layer does not say how many there were.
        return cell.events if cell.is_counted else int(bool(cell.parts))
    return exact_value(metric, cell)


def with_shelf(facts: WindowFacts, stock: StockAt, reached: Reached | None) -> WindowFacts:
    """The facts with what there was of one article: the least, and what was left at the end."""
    if reached is None or reached.level is None or reached.lowest is None:
        # Nobody has counted it yet, or nobody knows what has moved since.
        return structs.replace(facts, is_known=False)
    lowest, level = stock.exactly(reached.lowest), stock.exactly(reached.level)
    return structs.replace(facts, value=lowest, level=level)


def exact_value(metric: Metric, cell: Cell) -> ExactValue | None:
    """The value without any rounding; None where there is none: a mean of nothing."""
    above, below = sides_of(metric, cell)
    if metric.denominator is None or above is None:
        return above
    return Fraction(above) / below if below else None


def sides_of(metric: Metric, cell: Cell) -> tuple[ExactValue | None, ExactValue | None]:
    """What is above and below the line of a share, without any rounding; below a sum it is 1."""
    above = _total(metric.numerator, cell)
    if metric.denominator is None or above is None:
        return above, 1
    return above, _total(metric.denominator, cell)


def read_rows(cells: WindowCells, tick: Tick) -> tuple[ReadRows, ...]:
    """Which rows the window was judged by, by family."""
    found: dict[str, ReadRows] = {}
    for one in cells.all:
        day, source = one.cell.slot.start.date(), source_of(one.cell.sources)
        for family, serving in one.served:
            speaking = tick.epoch.get(family)
            epochs = (serving.epoch if serving else 0, speaking.epoch if speaking else 0)
            found[family] = ReadRows(
                family=family,
                day=day.isoformat(),
                generation=serving.generation if serving else None,
                epoch=epochs[0] if source == "batch" else max(epochs),
                # How many there were may be what is withheld.
                events=0 if one.is_hidden else one.cell.events,
                source=source,
            )
    return tuple(found.values())


def _further(metrics: VersionMetrics, cells: WindowCells, tick: Tick) -> Iterator[FurtherFacts]:
    """What is known of the metric of each condition in `and`."""
    for metric, one in zip(metrics.further, cells.further, strict=True):
        is_told = not one.is_hidden and _is_seen(one.cell)
        value = exact_value(metric, one.cell) if has_come(one.cell) else None
        yield FurtherFacts(value, is_told and _is_whole((one,), tick, cells.start))


def has_come(cell: Cell) -> bool:
    """Whether there is an answer for any of it."""
    return not cell.is_missing and bool(cell.known)


def _is_seen(cell: Cell) -> bool:
    # Of what has not come nobody knows whether it was seen: that is for `on_silence` to say.
    return cell.is_missing or cell.watch.is_enough


def _is_whole(each: Sequence[JudgedCell], tick: Tick, start: int) -> bool:
    """Whether generations cover the window, or the speed layer's rows that it hangs on count."""
    if all(one.is_complete for one in each):
        return True
    served = (pair for one in each for pair in one.served)
    behind = (reach for one in each for reach in one.reach)
    return all(
        is_known(tick, family, start, serving.epoch if serving else 0) for family, serving in served
    ) and all(
        # From the first of them on: what a level lacks there it lacks for ever after.
        is_known(tick, one.family, min(one.start, start), one.epoch)
        for one in behind
    )


def _can_be_told(rule: Rule, cells: WindowCells) -> bool:
    """Whether its number may be told, and whoever should have counted was there."""
    cell = cells.metric.cell
    if rule.kind == "silence":
        # Sensors that were not there are what it waits for.
        return not cells.metric.is_hidden
    return _is_seen(cell) and not any(one.is_hidden for one in cells.own)


def meets_minimum(metrics: VersionMetrics, cells: WindowCells) -> bool:
    """Whether there is as much of other metrics as the rule's `minimum` wants."""
    if not metrics.minimum:
        return True
    values = (
        exact_value(metric, one.cell) if one.cell.known else None
        for (metric, _), one in zip(metrics.minimum, cells.minimum, strict=True)
    )
    least: Sequence[int] = [one for _, one in metrics.minimum]
    return all(
        value is not None and value >= wanted for value, wanted in zip(values, least, strict=True)
    )


def _total(of: Formula, cell: Cell) -> ExactValue | None:
    rows = cell.parts.get(of.family.name, {})
    if isinstance(of, WeightedSum):
        # Sums and counts alone: those of all rows are the same, whatever they are joined by first.
        whole = sum(of.undivided(parts) for parts in rows.values())
        # Not by total(), which divides once and for good.
        return whole if of.divide_by == 1 else Fraction(whole, of.divide_by)
    found = of.total(of.family.across([*rows.values()]))
    return found if found is None or isinstance(found, int) else Fraction(found)
