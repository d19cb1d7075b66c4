"""The HTTP API: questions checked, answered from the views, encoded; every error a problem document."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from fastapi import FastAPI, Query, Request, Response

from serving.api import catalogue, problems
from serving.api.answer import Answerer, Asked, one_or_series
from serving.api.explain import ExplainQuery, explanation
from serving.api.instants import shown
from serving.api.known_stores import KnownStores
from serving.api.paging import next_address, page_of
from serving.api.question import MetricQuery, PageQuery, StoreSlots, as_of_instant, dimensions, store_ids, stretches
from serving.api.stores import StoreBook
from serving.api.telemetry import RequestCounts, Telemetry
from serving.merge.views import ViewReader
from tally.errors import BadQuery, ViewsUnreachable
from tally.settings import Settings

READY_SECONDS = 5.0


@dataclass(frozen=True)
class Api:
    """What the routes work with."""

    views: ViewReader
    book: StoreBook
    stores: KnownStores
    answerer: Answerer
    partitions: int

    async def metric(self, metric_id: str, query: MetricQuery, request: Request) -> dict[str, Any]:
        """The envelope of one page of a metric's values. Raises BadQuery, UnknownName, ViewsUnreachable."""
        metric = catalogue.metric(metric_id)
        named, by, as_of = store_ids(query), dimensions(query, metric.entry["by"]), as_of_instant(query)
        stretches(query, "", self.book)
        ids = named if named is not None else await self.stores.all_ids()
        await self.stores.check(ids)
        if not ids:
            raise BadQuery("store", "store: all, but there is no store yet; send receipts first")
        asked = [stretches(query, store_id, self.book) for store_id in ids]
        page, after = page_of(asked, query.after, query.limit)
        if not page:
            raise BadQuery("after", f"after: {query.after} lies beyond the last row")
        answer = await self.answerer.answer(Asked(metric, page, by, as_of))
        return {
            "metric": metric_id, "name": metric.entry["name"], "unit": metric.entry["unit"], **_span(query, asked),
            "grain": query.grain, "tz": query.tz, "by": by, "as_of": query.as_of, "store": ids[0] if _is_single(named) else None,
            **one_or_series(answer, _is_single(named)),
            "next": next_address(request.url.path, request.query_params.multi_items(), after),
        }  # fmt: skip

    async def explain(self, query: ExplainQuery) -> dict[str, Any]:
        """Both layers' rows of one window and which side won. Raises BadQuery, UnknownName, ViewsUnreachable."""
        await self.stores.check([query.store])
        return await explanation(self.views, query, self.partitions)

    async def ready(self) -> dict[str, Any]:
        """`ready`, and each check with what it found."""
        try:
            await asyncio.wait_for(self.views.check(), READY_SECONDS)
        except (ViewsUnreachable, TimeoutError) as error:
            detail = str(error) or f"no answer within {READY_SECONDS:.0f} s"
            return {"ready": False, "checks": {"views": {"ok": False, "detail": detail}}}
        return {"ready": True, "checks": {"views": {"ok": True, "detail": "tables and pointers can be read"}}}


def create_app(settings: Settings, views: ViewReader) -> FastAPI:
    """The application over these views."""
    book = StoreBook.load(settings)
    api = Api(views, book, KnownStores(views, book), Answerer(views, book, settings.partitions), settings.partitions)
    # No /docs page: its scripts would come from elsewhere.
    app = FastAPI(title="Tally", summary="Retail metrics by store and quarter hour.", version="1", docs_url=None, redoc_url=None)
    counts = RequestCounts()
    app.add_middleware(Telemetry, counts=counts)
    problems.install(app)
    _add_state_routes(app, api, counts)
    _add_list_routes(app, api)
    _add_metric_routes(app, api)
    return app


def _add_state_routes(app: FastAPI, api: Api, counts: RequestCounts) -> None:
    @app.get("/healthz", summary="The process answers")
    async def healthz() -> Response:
        return _json({"status": "ok"})

    @app.get("/readyz", summary="The views can be read")
    async def readyz() -> Response:
        state = await api.ready()
        return _json(state, 200 if state["ready"] else 503)

    @app.get("/metrics", summary="Counters for Prometheus")
    async def metrics() -> Response:
        return Response(counts.text(), media_type="text/plain; version=0.0.4")


def _add_list_routes(app: FastAPI, api: Api) -> None:
    @app.get("/v1/stores", summary="Stores with events, and those of the stores file")
    async def stores(query: Annotated[PageQuery, Query()], request: Request) -> Response:
        return _json(_page("stores", await api.stores.entries(), query, request))

    @app.get("/v1/metrics", summary="The metric catalogue")
    async def metric_list(query: Annotated[PageQuery, Query()], request: Request) -> Response:
        return _json(_page("metrics", catalogue.entries(), query, request))


def _add_metric_routes(app: FastAPI, api: Api) -> None:
    @app.get("/v1/metrics/{metric_id}", summary="Values of a metric by store and stretch of time")
    async def metric(metric_id: str, query: Annotated[MetricQuery, Query()], request: Request) -> Response:
        return _json(await api.metric(metric_id, query, request))

    @app.get("/v1/explain", summary="Why one window is answered as it is")
    async def explain(query: Annotated[ExplainQuery, Query()]) -> Response:
        return _json(await api.explain(query))


def _page(name: str, entries: list[dict[str, Any]], query: PageQuery, request: Request) -> dict[str, Any]:
    end = query.after + query.limit
    after = end if end < len(entries) else None
    address = next_address(request.url.path, request.query_params.multi_items(), after)
    return {name: entries[query.after : end], "next": address}


def _span(query: MetricQuery, asked: Sequence[StoreSlots]) -> dict[str, str]:
    """`from` and `to` as instants of the zone; as they were asked where each store has a zone of its own."""
    if len({store.zone.key for store in asked}) > 1:
        return {"from": query.from_, "to": query.to}
    zone, slots = asked[0].zone, asked[0].slots
    return {"from": shown(slots[0][0], zone), "to": shown(slots[-1][1], zone)}


def _is_single(named: list[str] | None) -> bool:
    return named is not None and len(named) == 1


def _json(body: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, media_type="application/json")
