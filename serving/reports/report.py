"""A report: the value of its days, that of as many earlier days, and the series.

In the form of its contract it has fields by name, and instants as text in the store's zone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from zoneinfo import ZoneInfo

from runtime.http.work_pools import ANSWERS, run_in_thread_if_large
from schemas.metric import ReportShape
from serving.answer import Query, QueryEngine
from serving.cells import cells
from serving.questions.catalogue import Metric, MetricValue
from serving.questions.catalogue import metric as metric_of
from serving.reports.comparison import (
    Answers,
    ComparedValue,
    StoreSpan,
    WithheldValue,
    comparison,
    value_or_reason,
)
from serving.reports.series import (
    DayEntry,
    ItemEntry,
    ItemQuestion,
    PivotEntry,
    UnexplainedAmounts,
    build_entries,
    build_series,
)
from tally.errors import BadQuery
from tally.families.family import Family
from tally.time.instants import format_instant
from tally.time.windows import TimeRange

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

    async def reports(
        self, shapes: Sequence[ReportShape], asked: StoreSpan
    ) -> list[StoreReport | WithheldValue]:
        """A report for each shape, or why it is withheld, in order. Raises ViewsUnreachable."""
        answered: dict[_AnswersKey, Answers] = {}
        found: list[StoreReport | WithheldValue] = []
        for shape in shapes:
            try:
                found.append(await self.report(shape, asked, answered=answered))
            except BadQuery as error:
                found.append(_to_withheld(error))
        return found

    async def comparisons(
        self, metrics: Sequence[str], asked: Sequence[StoreSpan]
    ) -> list[list[ComparedValue | WithheldValue]]:
        """The comparison of each metric for each store. Raises ViewsUnreachable."""
        by_families = {metric_of(name).families: metric_of(name) for name in metrics}
        stretches = [stretch for span in asked for stretch in span.single_slots()]
        answered: dict[tuple[Family, ...], list[Answers]] = {}
        for families, metric in by_families.items():
            found = await self._answers.read(Query(metric, stretches, (), None))
            pairs = zip(found[::2], found[1::2], strict=True)
            answered[families] = [*pairs]
        return [
            [_comparison(metric_of(name), answered, place) for name in metrics]
            for place in range(len(asked))
        ]

    async def report(
        self,
        shape: ReportShape,
        asked: StoreSpan,
        items: ItemQuestion = ItemQuestion(),
        # Those of earlier reports of the same days.
        answered: dict[_AnswersKey, Answers] | None = None,
    ) -> StoreReport:
        """The report of a shape, or of its `items`. Raises BadQuery, ViewsUnreachable."""
        answered = {} if answered is None else answered
        metric = metric_of(shape.metric)
        reading = (metric.families, "1h" if shape.pivot == "hour_of_week" else "1d")
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
    metric, companion = metric_of(shape.metric), None
    if shape.beside is not None:
        beside = metric_of(shape.beside)
        whole = cells.join_cells(beside.families, answers[0].result_cells)
        found = value_or_reason(beside, answers[0], whole)
        companion = CompanionValue(shape.beside, beside.entry.name, beside.entry.unit, *found)
    series = build_series(shape.pivot, metric, answers, asked.zone)
    return StoreReport(shape, asked, comparison(metric, answers), series, companion)


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


_REASONS = ("suppressed", "previous_suppressed")


def report_answer(report: StoreReport) -> dict[str, Any]:
    """The fields of the answer, in the order of the contract."""
    asked, shape, found = report.request, report.shape, report.comparison
    return {
        "report": shape.id,
        "title": shape.title,
        "data_source": shape.data_source,
        "how_to_read": shape.how_to_read,
        "store": asked.store_id,
        **_span_fields(asked.span, asked.zone),
        "tz": asked.tz,
        "value": found.value,
        **_reason(found.suppressed),
        "unit": found.unit,
        "currency": found.currency,
        "previous": {
            **_span_fields(asked.before, asked.zone),
            "value": found.previous,
            **_format_unexplained(report, "before"),
            **_reason(found.suppressed_before),
        },
        "change_percent": found.change_percent,
        "coverage": found.coverage,
        "complete": found.complete,
        "through": format_instant(found.through, asked.zone) if found.through else None,
        "series": [_entry(entry, asked.zone) for entry in report.series],
        **({"beside": _shown_fields(report.companion)} if report.companion else {}),
        **_format_unexplained(report, "now"),
    }


def _format_unexplained(report: StoreReport, name: Literal["now", "before"]) -> dict[str, Any]:
    # A report that comes from one table has no unexplained part.
    if report.unexplained is None:
        return {}
    return {"unexplained_minor": getattr(report.unexplained, name)}


def _reason(suppressed: str | None) -> dict[str, str]:
    # Left out where nothing is withheld: readers then need not know that values can be.
    return {} if suppressed is None else {"suppressed": suppressed}


def _entry(entry: PivotEntry, zone: ZoneInfo) -> dict[str, Any]:
    # Each kind of entry has its own fields, without nulls for those of other kinds.
    if isinstance(entry, ItemEntry):
        return _item(entry)
    fields = _shown_fields(entry)
    if isinstance(entry, DayEntry):
        start, end = (format_instant(boundary, zone) for boundary in fields.pop("day"))
        return {"start": start, "end": end, **fields}
    return fields


def _shown_fields(entry: object) -> dict[str, Any]:
    """The fields of a dataclass in their order; of its reasons those that withhold a value."""
    found = vars(entry).items()
    return {name: value for name, value in found if value is not None or name not in _REASONS}


def _item(entry: ItemEntry) -> dict[str, Any]:
    named = {"item_id": entry.item_id, "item": entry.item} if entry.by == "item" else {}
    others = {} if entry.others is None else {"others": entry.others}
    return {
        **named,
        "category": entry.category,
        **others,
        "value": entry.value,
        "units": entry.units,
        "receipts": entry.receipts,
        "share": entry.share,
        "previous": entry.previous,
    }


def _span_fields(span: TimeRange, zone: ZoneInfo) -> dict[str, str]:
    return {"from": format_instant(span.start, zone), "to": format_instant(span.end, zone)}
