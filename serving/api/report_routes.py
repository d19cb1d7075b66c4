"""The routes of the reports."""

import asyncio
from dataclasses import replace
from typing import Annotated, Any

import msgspec
from fastapi import FastAPI, Path, Query, Response

from schemas import loader
from schemas.report import ReportShape
from serving.api import described
from serving.api.pages import Pages
from serving.api.parameters import ReportQuery
from serving.query.grains import Slot
from serving.query.question import check_span, stretches
from serving.reports.comparison import StoreSpan
from serving.reports.contract import report_answer
from serving.reports.likeness import like_span
from serving.reports.report import ReportEngine
from serving.reports.series import GRAINS
from tally.errors import UnknownName


def add_report_routes(app: FastAPI, pages: Pages) -> None:
    """The list of the reports, and each of them."""
    engine = ReportEngine(pages.answerer)

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
        asked = await asyncio.to_thread(_span, shape, query, pages)
        return _json(report_answer(await engine.report(shape, asked)))


def _span(shape: ReportShape, query: ReportQuery, pages: Pages) -> StoreSpan:
    found = stretches(query.question, query.store, pages.registry)
    # Midnights are on every grain: what is left to check is how many hours, or days, are read.
    check_span(replace(query.question, grain=GRAINS[shape.pivot]), found.zone)
    span = Slot(found.slots[0].start, found.slots[-1].end)
    if query.compare == "before":
        return StoreSpan(query.store, found.zone, span)
    store = pages.registry.store(query.store)
    return StoreSpan(query.store, found.zone, span, like_span(store, found.zone, span))


def _shape(report_id: str) -> ReportShape:
    found = loader.reports().get(report_id)
    if found is None:
        raise UnknownName(
            "report",
            f"there is no report {report_id[:64]!r};"
            f" there are {', '.join(loader.reports())} (GET /v1/reports)",
        )
    return found


def _json(body: Any) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
