"""One page of a metric's values, and the address of the page after it.

The query is checked, cut into pages and answered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Request

from runtime.http.work_pools import ANSWERS
from serving.cells.dimensions import drop_excess_values, with_rows_per_slot
from serving.cells.levels import with_resets
from serving.engine.answer import QueryEngine
from serving.engine.page_query import Query
from serving.metrics import catalogue
from serving.questions.known_stores import KnownStores
from serving.questions.question import (
    STORE_ZONE,
    MetricQuestion,
    StoreSlots,
    as_of_instant,
    cut_all_slots,
    dimensions,
    first_and_last_day,
    store_ids,
)
from serving.questions.stores import StoreRegistry
from tally.errors import BadQuery
from tally.time.instants import format_instant
from web.api.requests import cursor
from web.api.requests.paging import PageEnd, cut_page
from web.api.requests.parameters import MetricQuery


@dataclass(frozen=True)
class Pages:
    """Builds pages from the stores and the query engine."""

    registry: StoreRegistry
    stores: KnownStores
    query_engine: QueryEngine

    async def page(
        self,
        metric_id: str,
        query: MetricQuery,
        request: Request,
    ) -> dict[str, Any]:
        """The envelope of one page, by field; instants are text in the requested time zone.

        Raises BadQuery, UnknownName, AnswerChanged, ViewsUnreachable.
        """
        metric, question = catalogue.metric(metric_id), query.question
        catalogue.check_grain(metric, question.grain)
        named, by, as_of = (
            store_ids(question),
            dimensions(question, metric.entry.by),
            as_of_instant(question),
        )
        place = cursor.decode(query.after, cursor.MetricCursor)
        whole = await self._cut_stretches(question, named)
        if metric.is_level:
            whole = await ANSWERS.run(with_resets, whole, question.grain, self.registry)
        if metric.stock is not None:
            whole = await self.query_engine.stock.with_baselines(metric.stock, whole, as_of)
        # The values are those of the whole query and not only of this page: before that, euros of a
        # second page were added up under the dollars of the first (seen). One value more than a
        # page has rows is read, which shows that there are too many.
        found_values = await self.query_engine.values(metric, whole, by, query.limit + 1)
        values = drop_excess_values(whole, by, found_values, query.limit)
        whole = with_rows_per_slot(whole, by, values, query.limit)
        # Cut before any row is read, so that a page only reads the windows of its own stretches.
        page, end = cut_page(whole, place, query.limit)
        seen = place.generations if place else None
        # An answer of a single page does not need the generations of other days.
        pages = (
            (
                min(first_and_last_day(store)[0] for store in whole),
                max(first_and_last_day(store)[1] for store in whole),
            )
            if end or place
            else None
        )
        answer, generations = await self.query_engine.answer(
            Query(metric, page, by, as_of, values, pages, seen, query.limit)
        )
        # Decided by the query: `all` is answered as a series even if there is only one store today.
        is_single = named is not None and len(named) == 1
        return {
            "metric": metric_id,
            "name": metric.entry.name,
            "unit": metric.entry.unit,
            **_span(question, whole),
            "grain": query.grain,
            "tz": query.tz,
            "by": by,
            "as_of": query.as_of,
            "store": whole[0].store_id if is_single else None,
            **_one_or_series(answer, is_single),
            "next": _next(request, end, generations),
        }

    async def _cut_stretches(
        self, question: MetricQuestion, named: list[str] | None
    ) -> list[StoreSlots]:
        """Every stretch of the query, cut in a thread.

        Computing a time zone's calendar over many years takes time.
        """
        # Called only for its errors, so that an invalid query is refused before any store is looked
        # up. The first named store is used, because the days may follow its clock; for `all` an id
        # that does not exist is used.
        check_ids = named[:1] if named else [""]
        if named or question.tz != STORE_ZONE:
            await ANSWERS.run(cut_all_slots, question, check_ids, self.registry)
        ids = named if named is not None else await self.stores.all_ids()
        await self.stores.check(ids)
        if not ids:
            raise BadQuery("store", "store: all, but there is no store yet; send receipts first")
        return await ANSWERS.run(cut_all_slots, question, ids, self.registry)


def _span(question: MetricQuestion, stores: Sequence[StoreSlots]) -> dict[str, str]:
    """The fields `from` and `to` as instants of the time zone.

    They are returned as they were asked if the stores have different zones.
    """
    if len({store.zone for store in stores}) > 1:
        return {"from": question.from_, "to": question.to}
    zone, slots = stores[0].zone, stores[0].slots
    return {
        "from": format_instant(slots[0].start, zone),
        "to": format_instant(slots[-1].end, zone),
    }


def _next(
    request: Request,
    end: PageEnd | None,
    generations: dict[str, int],
) -> str | None:
    if end is None:
        return None
    place = cursor.MetricCursor(end.store, int(end.instant.timestamp()), generations)
    return cursor.address(request.url.path, request.query_params.multi_items(), place)


def _one_or_series(answer: Mapping[str, Any], is_single: bool) -> dict[str, Any]:
    """The answer's fields, with `rows` in place of `series` if one store was named."""
    fields = dict(answer)
    if is_single:
        fields["rows"] = fields.pop("series")[0]["rows"]
    return fields
