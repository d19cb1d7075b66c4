"""A report: the value of its days, that of as many earlier days, and the series."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from runtime.http.work_pools import ANSWERS, run_in_thread_if_large
from schemas.report import ReportShape
from serving.cells import cells
from serving.engine.answer import QueryEngine, StoreAnswer
from serving.engine.page_query import Query
from serving.metrics.catalogue import Metric
from serving.metrics.catalogue import metric as metric_of
from serving.metrics.formulas import MetricValue
from serving.reports.comparison import (
    Answers,
    ComparedValue,
    StoreSpan,
    WithheldValue,
    comparison,
    value_or_reason,
)
from serving.reports.items import ItemQuestion, UnexplainedAmounts, build_entries
from serving.reports.series import GRAINS, PivotEntry, build_series
from tally.errors import BadQuery
from tally.families.family import Family

# Families and grain; reports with the same ones share a read.
_AnswersKey = tuple[tuple[Family, ...], str]


@dataclass(frozen=True)
class CompanionValue:
    """A second value that qualifies the number, in the unit of its own metric; None: not known."""

    metric: str
    name: str
    unit: str
    value: MetricValue
    suppressed: str | None = None


@dataclass(frozen=True)
class StoreReport:
    """A report of one store and its days."""

    shape: ReportShape
    request: StoreSpan
    comparison: ComparedValue
    series: tuple[PivotEntry, ...]
    companion: CompanionValue | None = None
    # Set for a report by article only.
    unexplained: UnexplainedAmounts | None = None


class ReportEngine:
    """Reports from the answers of one query engine."""

    def __init__(self, answers: QueryEngine) -> None:
        self._answers = answers

    async def report(
        self, shape: ReportShape, asked: StoreSpan, items: ItemQuestion = ItemQuestion()
    ) -> StoreReport:
        """The report of a shape; `items` is for those by article.

        Raises BadQuery, ViewsUnreachable.
        """
        return await self._report(shape, asked, {}, items)

    async def reports(
        self, shapes: Sequence[ReportShape], asked: StoreSpan
    ) -> list[StoreReport | WithheldValue]:
        """A report for each shape, or why it is withheld, in order. Raises ViewsUnreachable."""
        answered: dict[_AnswersKey, Answers] = {}
        found: list[StoreReport | WithheldValue] = []
        for shape in shapes:
            try:
                found.append(await self._report(shape, asked, answered))
            except BadQuery as error:
                found.append(_to_withheld(error))
        return found

    async def comparisons(
        self, metrics: Sequence[str], asked: Sequence[StoreSpan]
    ) -> list[list[ComparedValue | WithheldValue]]:
        """The comparison of each metric for each store; its days are read as one stretch.

        Raises ViewsUnreachable.
        """
        by_families = {metric_of(name).families: metric_of(name) for name in metrics}
        answered = {
            families: await self._read_single_slots(metric, asked)
            for families, metric in by_families.items()
        }
        return [
            [_comparison(metric_of(name), answered, place) for name in metrics]
            for place in range(len(asked))
        ]

    async def _read_single_slots(self, metric: Metric, asked: Sequence[StoreSpan]) -> list[Answers]:
        stretches = [stretch for span in asked for stretch in span.single_slots()]
        found = await self._answers.read(Query(metric, stretches, (), None))
        return list(zip(found[::2], found[1::2], strict=True))

    async def _report(
        self,
        shape: ReportShape,
        asked: StoreSpan,
        answered: dict[_AnswersKey, Answers],
        items: ItemQuestion = ItemQuestion(),
    ) -> StoreReport:
        metric = metric_of(shape.metric)
        reading = (metric.families, GRAINS[shape.pivot])
        # Read once: cells are those of the families, for any metric that is computed from them.
        if reading not in answered:
            # In a thread, for a calendar of many days takes long to cut.
            slots = await ANSWERS.run(asked.cut, reading[1])
            now, before = await self._answers.read(Query(metric, slots, (), None))
            answered[reading] = (now, before)
        size = sum(len(answer.result_cells) for answer in answered[reading])
        if shape.pivot != "item":
            return await run_in_thread_if_large(
                size, _build_report, shape, asked, answered[reading]
            )
        # The comparison may refuse the question, so it precedes the much larger read of receipts.
        compared = await run_in_thread_if_large(size, comparison, metric, answered[reading])
        return await self._by_item(shape, asked, compared, items)

    async def _by_item(
        self, shape: ReportShape, asked: StoreSpan, compared: ComparedValue, items: ItemQuestion
    ) -> StoreReport:
        spans = (asked.span, asked.before)
        now, before = await self._answers.items.sums(asked.store_id, spans, items.by)
        size = len(now.parts) + len(before.parts)
        entries, unexplained = await run_in_thread_if_large(
            size, build_entries, items, (now, before), compared
        )
        is_explained = unexplained.now == 0
        checked = replace(
            compared,
            complete=compared.complete and is_explained and unexplained.before == 0,
            is_explained=is_explained,
        )
        return StoreReport(shape, asked, checked, entries, unexplained=unexplained)


def _build_report(shape: ReportShape, asked: StoreSpan, answers: Answers) -> StoreReport:
    metric = metric_of(shape.metric)
    return StoreReport(
        shape,
        asked,
        comparison(metric, answers),
        build_series(shape.pivot, metric, answers, asked.zone),
        None if shape.beside is None else _companion_value(shape.beside, answers[0]),
    )


def _companion_value(name: str, answer: StoreAnswer) -> CompanionValue:
    metric = metric_of(name)
    whole = cells.join_cells(metric.families, answer.result_cells)
    value, suppressed = value_or_reason(metric, answer, whole)
    return CompanionValue(name, metric.entry.name, metric.entry.unit, value, suppressed)


def _comparison(
    metric: Metric, answered: Mapping[tuple[Family, ...], list[Answers]], place: int
) -> ComparedValue | WithheldValue:
    try:
        return comparison(metric, answered[metric.families][place])
    except BadQuery as error:
        return _to_withheld(error)


def _to_withheld(error: BadQuery) -> WithheldValue:
    # The prefix names a parameter of the URL, and here the question did not come from one.
    return WithheldValue(error.message.removeprefix(f"{error.field}: "))
