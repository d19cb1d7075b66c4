"""A report: the value of its days, that of as many earlier days, and the series."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from runtime.work_pools import ANSWERS
from schemas.report import ReportShape
from serving.merge.offload import computed
from serving.query import cells
from serving.query.answer import Query, QueryEngine, StoreAnswer
from serving.query.catalogue import Metric
from serving.query.catalogue import metric as metric_of
from serving.query.formulas import MetricValue
from serving.reports.comparison import (
    Answers,
    ComparedValue,
    StoreSpan,
    Withheld,
    comparison,
    told_value,
)
from serving.reports.items import ItemQuestion, Unexplained, entries_of
from serving.reports.series import GRAINS, PivotEntry, series_of
from tally.errors import BadQuery
from tally.families import Family

# Families and grain: what answers several reports.
_ReadingKey = tuple[tuple[Family, ...], str]


@dataclass(frozen=True)
class ValueBeside:
    """What says how much the number is worth, in the unit of its metric; None: not known."""

    metric: str
    name: str
    unit: str
    value: MetricValue
    suppressed: str | None = None


@dataclass(frozen=True)
class StoreReport:
    """A report of one store and its days."""

    shape: ReportShape
    asked: StoreSpan
    comparison: ComparedValue
    series: tuple[PivotEntry, ...]
    beside: ValueBeside | None = None
    # Of a report by article alone.
    unexplained: Unexplained | None = None


class ReportEngine:
    """Reports from the answers of one query engine."""

    def __init__(self, answers: QueryEngine) -> None:
        self._answers = answers

    async def report(
        self, shape: ReportShape, asked: StoreSpan, items: ItemQuestion = ItemQuestion()
    ) -> StoreReport:
        """The report of a shape; `items`: of one by article. Raises BadQuery, ViewsUnreachable."""
        return await self._report(shape, asked, {}, items)

    async def reports(
        self, shapes: Sequence[ReportShape], asked: StoreSpan
    ) -> list[StoreReport | Withheld]:
        """Each of the shapes, or why it is withheld, in their order. Raises ViewsUnreachable."""
        answered: dict[_ReadingKey, Answers] = {}
        found: list[StoreReport | Withheld] = []
        for shape in shapes:
            try:
                found.append(await self._report(shape, asked, answered))
            except BadQuery as error:
                found.append(_withheld(error))
        return found

    async def comparisons(
        self, metrics: Sequence[str], asked: Sequence[StoreSpan]
    ) -> list[list[ComparedValue | Withheld]]:
        """Of each store every metric over its days, without a series: days are read as one stretch.

        Raises ViewsUnreachable.
        """
        by_families = {metric_of(one).families: metric_of(one) for one in metrics}
        answered = {
            families: await self._read_whole(metric, asked)
            for families, metric in by_families.items()
        }
        return [
            [_comparison(metric_of(one), answered, place) for one in metrics]
            for place in range(len(asked))
        ]

    async def _read_whole(self, metric: Metric, asked: Sequence[StoreSpan]) -> list[Answers]:
        stretches = [one for span in asked for one in span.whole()]
        found = await self._answers.read(Query(metric, stretches, (), None))
        return list(zip(found[::2], found[1::2], strict=True))

    async def _report(
        self,
        shape: ReportShape,
        asked: StoreSpan,
        answered: dict[_ReadingKey, Answers],
        items: ItemQuestion = ItemQuestion(),
    ) -> StoreReport:
        metric = metric_of(shape.metric)
        reading = (metric.families, GRAINS[shape.pivot])
        # Cells are those of the families, whatever metric is made of them: read once.
        if reading not in answered:
            # A calendar of many days takes its time.
            slots = await ANSWERS.run(asked.cut, reading[1])
            now, before = await self._answers.read(Query(metric, slots, (), None))
            answered[reading] = (now, before)
        size = sum(len(one.found) for one in answered[reading])
        if shape.pivot != "item":
            return await computed(size, _made, shape, asked, answered[reading])
        # First what may refuse the question: receipts are much more to read.
        compared = await computed(size, comparison, metric, answered[reading])
        return await self._by_item(shape, asked, compared, items)

    async def _by_item(
        self, shape: ReportShape, asked: StoreSpan, compared: ComparedValue, items: ItemQuestion
    ) -> StoreReport:
        spans = (asked.span, asked.before)
        now, before = await self._answers.items.sums(asked.store_id, spans, items.by)
        size = len(now.parts) + len(before.parts)
        entries, unexplained = await computed(size, entries_of, items, (now, before), compared)
        is_explained = unexplained.now == 0
        told = replace(
            compared,
            complete=compared.complete and is_explained and unexplained.before == 0,
            is_explained=is_explained,
        )
        return StoreReport(shape, asked, told, entries, unexplained=unexplained)


def _made(shape: ReportShape, asked: StoreSpan, answers: Answers) -> StoreReport:
    metric = metric_of(shape.metric)
    return StoreReport(
        shape,
        asked,
        comparison(metric, answers),
        series_of(shape.pivot, metric, answers, asked.zone),
        None if shape.beside is None else _beside(shape.beside, answers[0]),
    )


def _beside(name: str, answer: StoreAnswer) -> ValueBeside:
    metric = metric_of(name)
    whole = cells.joined(metric.families, answer.found)
    value, suppressed = told_value(metric, answer, whole)
    return ValueBeside(name, metric.entry.name, metric.entry.unit, value, suppressed)


def _comparison(
    metric: Metric, answered: Mapping[tuple[Family, ...], list[Answers]], place: int
) -> ComparedValue | Withheld:
    try:
        return comparison(metric, answered[metric.families][place])
    except BadQuery as error:
        return _withheld(error)


def _withheld(error: BadQuery) -> Withheld:
    # The parameter is named to who wrote an address; here nobody has.
    return Withheld(error.message.removeprefix(f"{error.field}: "))
