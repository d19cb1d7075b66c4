"""The stores that exist: those with rows, and those of the stores file."""

import re
from datetime import date
from typing import Any

from runtime.registry.sources import FAMILIES
from serving.questions.stores import StoreRegistry
from serving.storage.rows import Activity
from serving.storage.views import ViewReader
from tally.errors import UnknownName

# \Z and not $, which lets an end of line pass.
_STORE_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}\Z", re.ASCII)


class KnownStores:
    """Remembers the stores that it has seen.

    A store that has rows keeps them, so only an unfamiliar id costs a read.
    """

    def __init__(self, views: ViewReader, registry: StoreRegistry) -> None:
        self._views, self._registry = views, registry
        self._known_ids: set[str] = set(registry.listed)

    async def check(self, store_ids: list[str]) -> None:
        """Raise UnknownName unless all are known, ViewsUnreachable when the views do not answer."""
        for store_id in store_ids:
            # A text that is no valid id is refused without a read.
            if not _STORE_ID.match(store_id) or not await self._is_known(store_id):
                raise UnknownName(
                    "store",
                    f"there is no store {store_id[:64]!r}:"
                    " no event of it has arrived yet (GET /v1/stores)",
                )

    async def _is_known(self, store_id: str) -> bool:
        # An unknown store is looked up each time, and it alone, so that the first receipt of a new
        # store shows at once.
        if store_id not in self._known_ids and await self._views.has_events(
            store_id, [*FAMILIES.values()]
        ):
            # Only existing stores are remembered: made-up ids would fill the memory.
            self._known_ids.add(store_id)
        return store_id in self._known_ids

    async def all_ids(self) -> list[str]:
        """Every known id, ascending."""
        return sorted(self._known_ids | (await self._active()).keys())

    async def entries(self) -> list[dict[str, Any]]:
        """The fields that /v1/stores lists of each store, by store_id ascending.

        The days (UTC) are null for a listed store without events.
        """
        active = await self._active()
        return [
            self._entry(store_id, active.get(store_id))
            for store_id in sorted(active.keys() | self._registry.listed.keys())
        ]

    async def _active(self) -> dict[str, Activity]:
        active = {store.store_id: store for store in await self._views.activity()}
        self._known_ids |= active.keys()
        return active

    def _entry(self, store_id: str, active: Activity | None) -> dict[str, Any]:
        store = self._registry.store(store_id)
        first: date | None = active.first_day if active else None
        last: date | None = active.last_day if active else None
        return {
            "store_id": store_id,
            "name": store.name,
            "tz": store.tz,
            "currency": store.currency,
            "first_day": first,
            "last_day": last,
        }
