"""The values of a question's dimensions, over the whole question and not over one page.

Else a page would lack the queue that another page shows, and the number of rows of a stretch would
not be known beforehand.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import TypeAlias

from runtime.cassandra.writes import chunks
from serving.cells.cells import Split
from serving.questions.question import MAX_ENTRIES, MAX_VALUES, StoreSlots, first_and_last_day
from serving.storage.views import ViewReader
from tally.errors import BadQuery
from tally.families.family import Family

# The most rows of a page beyond its limit, of values that no register had when the page was cut.
MAX_UNREGISTERED = 100_000

# By dimension, then by store; a store without any value is absent.
Values: TypeAlias = Mapping[str, Mapping[str, frozenset[str]]]
ValuesByDimension: TypeAlias = Mapping[str, Sequence[str | None]]


async def read_values(
    views: ViewReader,
    families: Sequence[Family],
    dimensions: Iterable[str],
    stores: Sequence[StoreSlots],
    most: int,
) -> Values:
    """The values that the stores' events of the asked days have, over all families that have them.

    One family has at most `most` for each store. Raises ViewsUnreachable; BadQuery for too many.
    """
    # Registers may lag behind a row, so callers that list values look at the page's own rows too.
    wanted = [
        (dimension, family)
        for dimension in dict.fromkeys(dimensions)
        for family in families
        if dimension in family.axes
    ]
    found = {dimension: dict[str, frozenset[str]]() for dimension, _ in wanted}
    count = 0
    # In lots: with thousands of stores of thousands of values each the first lots are enough to
    # refuse the question, and all of them would not fit into memory.
    for lot in chunks(stores, max(1, MAX_VALUES // most)) if wanted else ():
        days = {store.store_id: first_and_last_day(store) for store in lot}
        answers = await asyncio.gather(
            *(views.axis_values(family, dimension, days, most) for dimension, family in wanted)
        )
        for (dimension, _), by_store in zip(wanted, answers, strict=True):
            # Either side of a ratio may have a value that the other lacks, and it is a row too.
            held = found[dimension]
            for store_id, values in by_store.items():
                held[store_id] = held.get(store_id, frozenset()) | {*values}
                count += len(values)
        if count > MAX_VALUES:
            detail = f"by: the stores have more than {MAX_VALUES:,} values of {', '.join(found)}"
            raise BadQuery("by", f"{detail}; ask for fewer stores, or by fewer dimensions")
    return found


def drop_excess_values(
    stores: Sequence[StoreSlots], by: Sequence[str], values: Values, limit: int
) -> Values:
    """The values, less those of `by` where a question of one stretch would have too many rows."""
    # No other page has to agree with its rows, so the values of its own rows are enough.
    is_one = len(stores) == len(stores[0].slots) == 1
    if not is_one or _rows_per_slot(stores[0], by, values) <= limit:
        return values
    return {name: by_store for name, by_store in values.items() if name not in by}


def _rows_per_slot(store: StoreSlots, by: Sequence[str], values: Values) -> int:
    by_dimension = (values.get(name, {}) for name in {*by})
    # A dimension without any value has one row, with the value None.
    return prod(len(by_store.get(store.store_id, ())) or 1 for by_store in by_dimension)


def with_rows_per_slot(
    stores: Sequence[StoreSlots], by: Sequence[str], values: Values, limit: int
) -> list[StoreSlots]:
    """The stores with the rows of each stretch. Raises BadQuery for more than a page may have."""
    if not by:
        return [*stores]
    found = [replace(store, rows_per_slot=_rows_per_slot(store, by, values)) for store in stores]
    for store in found:
        # All stores are checked, and not only those of this page: page seven would be too late.
        refuse_too_many(store.rows_per_slot, store.store_id, by, limit)
    return found


def refuse_too_many(rows: int, store_id: str, by: Sequence[str], limit: int) -> None:
    """Raise BadQuery where one stretch has more rows than a page may have."""
    if rows > limit:
        larger = f"with a higher limit (at most {MAX_ENTRIES}), " if limit < MAX_ENTRIES else ""
        detail = f"each stretch of store {store_id} has more than {limit=} rows by {','.join(by)}"
        advice = f"ask {larger}by fewer dimensions, for fewer days, or for one stretch at a time"
        raise BadQuery("by", f"by: {detail}; {advice}")


def refuse_unregistered(rows: int, limit: int) -> None:
    """Raise BadQuery where values that were in no register make a page too large."""
    if rows > limit + MAX_UNREGISTERED:
        detail = f"limit: the page would have {rows:,} rows, of values that are new to it"
        raise BadQuery("limit", f"{detail}; ask with a lower limit, or by fewer dimensions")


def build_splits(each: ValuesByDimension) -> list[Split]:
    """The splits of a stretch's rows: one value of each dimension for each row."""
    # Without dimensions there is one empty combination, which is the whole.
    every = product(*each.values())
    return [dict(zip(each, combination, strict=True)) for combination in every]
