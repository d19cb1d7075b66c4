"""Reports as values: read once for several, withheld one by one, compared without a series."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import date
from typing import TypeVar
from zoneinfo import ZoneInfo

import pytest

from schemas import loader
from schemas.metric import ReportShape
from serving.answer import QueryEngine
from serving.questions.stores import StoreRegistry
from serving.reports.comparison import ComparedValue, StoreSpan, WithheldValue
from serving.reports.report import ReportEngine, StoreReport
from serving.reports.series import DayEntry
from serving.storage.tables import ViewRow
from tally.config.settings import Settings
from tally.families.family import Family
from tally.time.day_clock import DayClock
from tests.support.questions.report_world import COMPLETE, PARTIAL, UNKNOWN, report_world
from tests.support.serving.serving_world import MemoryViews
from web.dashboard.shared.addresses import Period

ROME = DayClock.from_zone(ZoneInfo("Europe/Rome"))
SHAPES = tuple(loader.reports().values())
METRICS = tuple(dict.fromkeys(shape.metric for shape in SHAPES))
_Result = TypeVar("_Result")


class CountingViews(MemoryViews):
    """Counts how often which family's rows of the speed layer are read."""

    def __init__(self) -> None:
        super().__init__(report_world())
        self.reads: Counter[str] = Counter()

    async def speed_rows(
        self, family: Family, store_id: str, days: Sequence[date]
    ) -> list[ViewRow]:
        self.reads[family.name] += 1
        return await super().speed_rows(family, store_id, days)


def asked(
    ask: Callable[[ReportEngine], Awaitable[_Result]], views: MemoryViews | None = None
) -> _Result:
    settings = Settings()
    registry = StoreRegistry.load(settings)
    engine = QueryEngine(views or MemoryViews(report_world()), registry, settings)

    async def run() -> _Result:
        return await ask(ReportEngine(engine))

    return asyncio.run(run())


def reports(span: StoreSpan) -> list[StoreReport | WithheldValue]:
    return asked(lambda engine: engine.reports(SHAPES, span))


def alone(shape: ReportShape, span: StoreSpan) -> StoreReport:
    return asked(lambda engine: engine.report(shape, span))


def week(store: str, until: str) -> StoreSpan:
    return StoreSpan(store, ROME, Period(date.fromisoformat(until), 7).span(ROME))


def test_reports_on_the_same_cells_share_one_reading() -> None:
    views = CountingViews()

    asked(lambda engine: engine.reports(SHAPES, week("367", COMPLETE)), views)

    # Of each the days and those before: devices by day and by hour, receipts alone and beside
    # people counters.
    assert views.reads == {"wifi": 4, "sales": 4, "traffic": 2}


def test_each_of_several_reports_is_as_if_it_were_asked_alone() -> None:
    span = week("367", PARTIAL)

    assert reports(span) == [alone(shape, span) for shape in SHAPES]


def test_a_report_that_cannot_be_made_withholds_itself_alone() -> None:
    found = reports(week("500", COMPLETE))

    withheld = {
        shape.id: one.reason
        for shape, one in zip(SHAPES, found, strict=True)
        if isinstance(one, WithheldValue)
    }
    assert list(withheld) == ["items", "sales"]
    assert withheld["sales"].startswith("it takes EUR, USD, which do not add up")


@pytest.mark.parametrize("until", [COMPLETE, PARTIAL, UNKNOWN])
def test_comparison_of_whole_days_is_that_of_the_report(until: str) -> None:
    spans = [week(store, until) for store in ("367", "500")]

    compared = asked(lambda engine: engine.comparisons(METRICS, spans))

    for span, found in zip(spans, compared, strict=True):
        by_metric = {
            shape.metric: one.comparison if isinstance(one, StoreReport) else one
            for shape, one in zip(SHAPES, reports(span), strict=True)
        }
        assert dict(zip(METRICS, found, strict=True)) == by_metric


@pytest.mark.parametrize(
    ("known", "is_settled", "state"),
    [
        (0, False, "unknown"),
        (95, True, "partial"),
        (96, False, "provisional"),
        (96, True, "complete"),
    ],
)
def test_state_is_the_first_that_holds(known: int, is_settled: bool, state: str) -> None:
    found = ComparedValue("m", "visits", None, 1, 1, 0.0, known, 96, is_settled, False, None)

    assert found.state == state


def test_span_before_has_as_many_local_days_over_a_change_of_clocks() -> None:
    span = week("367", "2026-11-01")

    hours = [(one.end - one.start).total_seconds() / 3600 for one in (span.span, span.before)]
    assert hours == [168, 169]


def test_reports_of_devices_say_beside_how_often_they_were_heard() -> None:
    found = {one.shape.data_source: one.companion for one in complete_reports()}

    assert found["POS"] is None and found["POS, people counter"] is None
    beside = found["WiFi"]
    assert beside is not None
    told = (beside.metric, beside.unit, beside.value)
    # Histograms tell lower ends: 60 is one of its buckets.
    assert told == ("reporting_interval", "seconds", 60)


def complete_reports() -> list[StoreReport]:
    return [one for one in reports(week("367", COMPLETE)) if isinstance(one, StoreReport)]


def test_a_day_of_which_a_part_is_known_says_so() -> None:
    whole, part = (
        alone(loader.reports()["sales"], week("367", until)) for until in (COMPLETE, PARTIAL)
    )

    assert all(day.complete for day in whole.series if isinstance(day, DayEntry))
    days = [day for day in part.series if isinstance(day, DayEntry)]
    assert [day for day in days if not day.complete and day.value is not None]
