"""The routes for the reports."""

from datetime import timedelta
from typing import Annotated, Any

import msgspec
from fastapi import FastAPI, Path, Query, Response

from runtime.http.work_pools import ANSWERS
from schemas import loader
from schemas.report import ReportShape
from serving.questions.question import cut_slots
from serving.reports.comparison import StoreSpan, like_span
from serving.reports.contract import report_answer
from serving.reports.items import ItemQuestion
from serving.reports.report import ReportEngine
from tally.errors import BadQuery, UnknownName
from tally.time.windows import TimeRange
from web.api.answers import described
from web.api.requests.pages import Pages
from web.api.requests.parameters import ReportQuery

# As many quarter hours as in any other answer; the same number before them is read too.
MAX_DAYS = 400


def add_report_routes(app: FastAPI, pages: Pages) -> None:
    """Add the routes for the list of reports and for one report."""
    engine = ReportEngine(pages.query_engine)

    @app.get("/v1/reports", summary="The reports", responses=described.REPORTS)
    async def report_list() -> Response:
        return _json({"reports": [*loader.reports().values()]})

    @app.get(
        "/v1/reports/{report_id}",
        summary="A metric of one store over some days, beside as many earlier days",
        responses=described.REPORT,
    )
    async def report(
        report_id: Annotated[str, Path(description="id of the report")],
        query: Annotated[ReportQuery, Query()],
    ) -> Response:
        shape = _shape(report_id)
        await pages.stores.check([query.store])
        items = _items(query, shape)
        span = await ANSWERS.run(_span, query, pages)
        return _json(report_answer(await engine.report(shape, span, items)))


def _span(query: ReportQuery, pages: Pages) -> StoreSpan:
    store_slots = cut_slots(query.question, query.store, pages.registry)
    span = TimeRange(store_slots.slots[0].start, store_slots.slots[-1].end)
    _refuse_long(span)
    like = None
    if query.compare != "before":
        like = like_span(pages.registry.store(query.store), store_slots)
    store_span = StoreSpan(query.store, store_slots.clock, span, like)
    if store_span.before.start >= store_span.before.end:
        raise BadQuery(
            "from", "from: the zone has left out the day before; ask from one day earlier on"
        )
    return store_span


def _items(query: ReportQuery, shape: ReportShape) -> ItemQuestion:
    """The query for the report's items. Raise BadQuery if the report is not by item."""
    if shape.pivot != "item":
        # If the parameter were ignored, the answer would be to another query than the client meant.
        for name, value in (("by", query.by), ("top", query.top)):
            if value is not None:
                raise BadQuery(name, f"{name}: {shape.id} is no report by item; leave it out")
    usual = ItemQuestion()
    return ItemQuestion(query.by or usual.by, query.top or usual.top)


def _refuse_long(span: TimeRange) -> None:
    """Raise BadQuery for more days than are read at once, for every kind of report."""
    if span.end - span.start > timedelta(days=MAX_DAYS):
        raise BadQuery("to", f"to: at most {MAX_DAYS} days; ask for less")


def _shape(report_id: str) -> ReportShape:
    shape = loader.reports().get(report_id)
    if shape is None:
        raise UnknownName(
            "report",
            f"there is no report {report_id[:64]!r};"
            f" there are {', '.join(loader.reports())} (GET /v1/reports)",
        )
    return shape


def _json(body: Any) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
