"""One page of a metric's values, and the address of the page after it.

The query is checked, cut into pages and answered.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import Request
from pydantic import Field

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
from tally.time.windows import WINDOW, TimeRange
from web.api.requests import cursor
from web.api.requests.cursor import MetricCursor, wrong_cursor_error
from web.api.requests.shared import NameList, PageQuery, StoreNames

# Every window of an answer is read and merged, no matter how long its rows are, so this limits the
# cost of one query.
MAX_WINDOWS = 40_000


class MetricQuery(PageQuery):
    """Parameters of a metric's values; any other is refused."""

    store: StoreNames
    from_: Annotated[
        str,
        Field(
            alias="from",
            description="inclusive: instant with offset, or YYYY-MM-DD for the begin of that day"
            " in tz: midnight, with tz=store the store's `day_starts`",
        ),
    ]
    to: Annotated[str, Field(description="exclusive, as `from`")]
    grain: Annotated[
        Literal["15m", "1h", "1d", "1w"],
        Field("15m", description="length of a row's stretch; weeks begin on Monday"),
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
        return MetricQuestion(
            self.store,
            self.from_,
            self.to,
            self.grain,
            self.tz,
            by=self.by,
            as_of=self.as_of,
        )


class PageEnd(NamedTuple):
    """The end of a page: its last store, and the end of that store's last slot, UTC."""

    store: str
    instant: datetime


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
        page, end = cut_page(whole, place, query.limit)
        known_generations = place.generations if place else None
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
            Query(metric, page, by, as_of, values, pages, known_generations, query.limit)
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

    async def _cut_slots(
        self, question: MetricQuestion, named: list[str] | None
    ) -> list[StoreSlots]:
        """Every slot of the query, cut in a thread.

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


def cut_page(
    stores: Sequence[StoreSlots], place: MetricCursor | None, limit: int
) -> tuple[list[StoreSlots], PageEnd | None]:
    """The slots after the place, of all stores in order, that make at most `limit` rows.

    There is at least one slot, and there are fewer if slots are long. The second value is
    the end of the page, None if no slot is left. Raises BadQuery when there is no such place.
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
            last = page[-1]
            return page, PageEnd(last.store_id, last.slots[-1].end)
        room -= len(slots) * store.rows_per_slot
        windows -= sum((end - start) // WINDOW for start, end in slots)
        first = 0
    if not page:
        raise wrong_cursor_error()
    return page, None


def _find_start(stores: Sequence[StoreSlots], place: MetricCursor | None) -> tuple[int, int]:
    """The numbers of the store and of its slot at which the page begins.

    The place is that of the last slot before the page, so a store that has appeared since then
    and sorts after it is still answered.
    """
    if place is None:
        return 0, 0
    # Found by name and instant instead of a count of rows: with a count, a store that appeared
    # between two pages made rows of other stores appear twice (seen).
    for number, store in enumerate(stores):
        if store.store_id == place.store:
            before = bisect_left(store.slots, place.instant, key=lambda slot: slot.end)
            if before < len(store.slots) and store.slots[before].end == place.instant:
                following = before + 1
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
    """The fields `from` and `to` as instants of the time zone.

    They are returned as they were asked if the stores have different zones.
    """
    if len({store.zone for store in stores}) > 1:
        return {"from": question.from_, "to": question.to}
    zone, slots = stores[0].zone, stores[0].slots
    start, end = slots[0].start, slots[-1].end
    return {"from": format_instant(start, zone), "to": format_instant(end, zone)}


def _next(
    request: Request,
    end: PageEnd | None,
    generations: dict[str, int],
) -> str | None:
    if end is None:
        return None
    place = MetricCursor(end.store, int(end.instant.timestamp()), generations)
    return cursor.next_address(request, place)


def _one_or_series(answer: Mapping[str, Any], is_single: bool) -> dict[str, Any]:
    """The answer's fields, with `rows` in place of `series` if one store was named."""
    fields = dict(answer)
    if is_single:
        fields["rows"] = fields.pop("series")[0]["rows"]
    return fields
