"""Which values the dimensions of a question have: of the whole question, and not of one page.

Else a page would lack the queue that another page shows, and nobody could say beforehand how many
rows a stretch is.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import TypeAlias

from serving.merge.views import ViewReader
from serving.query.cells import Split
from serving.query.question import MOST_ENTRIES, StoreSlots, days_of
from tally.errors import BadQuery
from tally.families import Family

# By dimension, then by store; a store without any is absent.
Values: TypeAlias = Mapping[str, Mapping[str, frozenset[str]]]
ValuesSeen: TypeAlias = Mapping[str, Iterable[str]]


async def read_values(
    views: ViewReader,
    families: Sequence[Family],
    dimensions: Iterable[str],
    stores: Sequence[StoreSlots],
    most: int,
) -> Values:
    """The values that the stores' events of the asked days name, in whichever family has them.

    Of one family at most `most` for each store. Raises ViewsUnreachable.
    """
    # By registers, which may lag behind a row: who lists values looks at the page's own rows too.
    touched = ((store.store_id, days_of(store)) for store in stores)
    days = {store_id: (of[0], of[-1]) for store_id, of in touched}
    asked = [
        (dimension, family)
        for dimension in dict.fromkeys(dimensions)
        for family in families
        if dimension in family.axes
    ]
    answers = await asyncio.gather(
        *(views.axis_values(family, dimension, days, most) for dimension, family in asked)
    )
    found: dict[str, dict[str, frozenset[str]]] = {}
    for (dimension, _), by_store in zip(asked, answers, strict=True):
        # Of a ratio either side may have a value that the other lacks: that is a row too.
        held = found.setdefault(dimension, {})
        for store_id, values in by_store.items():
            held[store_id] = held.get(store_id, frozenset()) | {*values}
    return found


def with_rows_each(
    stores: Sequence[StoreSlots], by: Sequence[str], values: Values, limit: int
) -> list[StoreSlots]:
    """The stores, each with how many rows of the answer a stretch is.

    Raises BadQuery where one stretch has more rows than a page may have.
    """
    if not by:
        return [*stores]

    def count(dimension: str, store: StoreSlots) -> int:
        # A dimension without any value has one row: the value None.
        return len(values.get(dimension, {}).get(store.store_id, ())) or 1

    found = [
        replace(store, rows_each=prod(count(dimension, store) for dimension in {*by}))
        for store in stores
    ]
    for store in found:
        # Of any store and not of this page's: page seven would be too late to say so.
        if store.rows_each > limit:
            larger = (
                f"with a higher limit (at most {MOST_ENTRIES}), " if limit < MOST_ENTRIES else ""
            )
            raise BadQuery(
                "by",
                f"by: each stretch of store {store.store_id} has more than {limit=} rows by"
                f" {','.join(by)}; ask {larger}by fewer dimensions, or for fewer days",
            )
    return found


def splits_of(
    by: Sequence[str],
    store_id: str,
    values: Values,
    seen: ValuesSeen,
) -> list[Split]:
    """What each row of a stretch is of: one value of each dimension, ascending.

    A dimension without any value has the value None. `seen` are those that the page's rows have.
    """
    # Whoever names one twice asks for it once.
    named = [*dict.fromkeys(by)]
    each: list[list[str | None]] = []
    for dimension in named:
        noted = values.get(dimension, {}).get(store_id, frozenset())
        each.append([*sorted(noted.union(seen[dimension]))] or [None])
    # Without dimensions there is one empty product: the whole.
    return [dict(zip(named, some, strict=True)) for some in product(*each)]
