"""One page of a metric's values: the query is checked, cut into pages and answered."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Request
from pydantic import Field

from runtime.http.work_pools import ANSWERS
from schemas.metric import Grain
from serving.answer import Query, QueryEngine
from serving.cells.dimensions import drop_excess_values, with_rows_per_slot
from serving.questions import catalogue
from serving.questions.known_stores import KnownStores
from serving.questions.question import (
    STORE_ZONE,
    MetricQuestion,
    StoreSlots,
    as_of_instant,
    cut_all_slots,
    dimensions,
    first_and_last_day,
    parse_stores,
    with_resets,
)
from serving.questions.stores import StoreRegistry
from tally.errors import BadQuery
from tally.time.instants import format_instant
from tally.time.windows import WINDOW, TimeRange
from web.api.requests import shared
from web.api.requests.shared import JsonFields, MetricCursor, NameList, wrong_cursor_error

# Every window of an answer is read and merged, no matter how long its rows are, so this limits the
# cost of one query.
MAX_WINDOWS = 40_000
FROM_MEANING = (
    "inclusive: instant with offset, or YYYY-MM-DD for the begin of that day in tz: midnight, with"
    " tz=store the store's `day_starts`"
)


class MetricQuery(shared.PageQuery):
    """Parameters of a metric's values; any other is refused."""

    store: shared.StoreNames
    from_: Annotated[str, Field(alias="from", description=FROM_MEANING)]
    to: Annotated[str, Field(description="exclusive, as `from`")]
    grain: Annotated[
        Grain, Field("15m", description="length of a row's stretch; weeks begin on Monday")
    ]
    tz: Annotated[
        str,
        Field("UTC", max_length=64, description="IANA time zone, or `store` for each store's own"),
    ]
    by: Annotated[NameList, Field([], description="dimensions, comma between; see /v1/metrics")]
    as_of: Annotated[
        str | None, Field(None, description="instant with offset: what was published then")
    ]

    @property
    def question(self) -> MetricQuestion:
        """The query, apart from its page."""
        span = self.from_, self.to, self.grain, self.tz
        return MetricQuestion(self.store, *span, self.by, self.as_of)


@dataclass(frozen=True)
class Pages:
    """Builds pages from the stores and the query engine."""

    registry: StoreRegistry
    stores: KnownStores
    query_engine: QueryEngine

    async def page(self, metric_id: str, query: MetricQuery, request: Request) -> JsonFields:
        """The envelope of one page, by field; instants are text in the requested time zone.

        Raises BadQuery, UnknownName, AnswerChanged, ViewsUnreachable.
        """
        metric, question = catalogue.metric(metric_id), query.question
        catalogue.check_grain(metric, question.grain)
        named, by = parse_stores(question.store), dimensions(question, metric.entry.by)
        as_of = as_of_instant(question)
        place = shared.decode_cursor(query.after, MetricCursor)
        whole = await self._cut_slots(question, named)
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
        # Cut before any row is read, so that a page only reads the windows of its own slots.
        page, has_more = cut_page(whole, place, query.limit)
        known_generations = place.generations if place else None
        pages = None
        # An answer of a single page does not need the generations of other days.
        if has_more or place:
            first_days, last_days = zip(*map(first_and_last_day, whole), strict=True)
            pages = min(first_days), max(last_days)
        answer, generations = await self.query_engine.answer(
            Query(metric, page, by, as_of, values, pages, known_generations, query.limit)
        )
        # Decided by the query: `all` is answered as a series even if there is only one store today.
        is_single = named is not None and len(named) == 1
        if is_single:
            answer["rows"] = answer.pop("series")[0]["rows"]
        following = None
        if has_more:
            until = int(page[-1].slots[-1].end.timestamp())
            following = MetricCursor(page[-1].store_id, until, generations)
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
            **answer,
            "next": shared.next_address(request, following),
        }

    async def _cut_slots(
        self, question: MetricQuestion, named: list[str] | None
    ) -> list[StoreSlots]:
        # In a thread, because computing a time zone's calendar over many years takes time.
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


def cut_page(
    stores: Sequence[StoreSlots], place: MetricCursor | None, limit: int
) -> tuple[list[StoreSlots], bool]:
    """The slots after the place, of all stores in order, that make at most `limit` rows.

    There is at least one slot, and there are fewer if slots are long. The second value says
    whether slots are left behind the page. Raises BadQuery when there is no such place.
    """
    page: list[StoreSlots] = []
    room, windows = limit, MAX_WINDOWS
    number, first = _find_start(stores, place)
    for store in stores[number:]:
        # The page takes at least one slot, no matter how many rows it has; with an empty page
        # a client would make no progress.
        slots = store.slots[first : first + max(room // store.rows_per_slot, 0 if page else 1)]
        # For a level, each page also reads the windows since the reset, which none of its rows has.
        windows -= (store.slots[first].start - store.read_from(first)) // WINDOW
        slots = slots[: _count_affordable(slots, windows, is_first=not page)]
        if slots:
            page.append(replace(store, slots=slots))
        if first + len(slots) < len(store.slots):
            return page, True
        room -= len(slots) * store.rows_per_slot
        windows -= sum((end - start) // WINDOW for start, end in slots)
        first = 0
    if not page:
        raise wrong_cursor_error()
    return page, False


def _find_start(stores: Sequence[StoreSlots], place: MetricCursor | None) -> tuple[int, int]:
    """The numbers of the store and of its slot at which the page begins."""
    if place is None:
        return 0, 0
    # The place is that of the last slot before the page, so a store that has appeared since then
    # and sorts after it is still answered.
    # Found by name and instant instead of a count of rows: with a count, a store that appeared
    # between two pages made rows of other stores appear twice (seen).
    for number, store in enumerate(stores):
        if store.store_id == place.store:
            until = datetime.fromtimestamp(place.until, UTC)
            following = bisect_right(store.slots, until, key=lambda slot: slot.end)
            if following and store.slots[following - 1].end == until:
                return (number, following) if following < len(store.slots) else (number + 1, 0)
    raise wrong_cursor_error()


def _count_affordable(slots: Sequence[TimeRange], windows: int, is_first: bool) -> int:
    used_windows = 0
    for count, (start, end) in enumerate(slots):
        used_windows += (end - start) // WINDOW
        if used_windows > windows and not (is_first and count == 0):
            return count
    return len(slots)


def _span(question: MetricQuestion, stores: Sequence[StoreSlots]) -> dict[str, str]:
    """The fields `from` and `to` in the time zone; as asked if the stores have different ones."""
    if len({store.zone for store in stores}) > 1:
        return {"from": question.from_, "to": question.to}
    return format_span(stores[0])


def format_span(store: StoreSlots) -> dict[str, str]:
    """The fields `from` and `to` of all slots of a store, as instants of its time zone."""
    start, end = store.slots[0].start, store.slots[-1].end
    return {"from": format_instant(start, store.zone), "to": format_instant(end, store.zone)}
