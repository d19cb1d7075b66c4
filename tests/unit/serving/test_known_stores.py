"""Which stores may be asked for."""

import asyncio
from datetime import date

import pytest

from runtime.registry.sources import SALES
from serving.questions.known_stores import KnownStores
from serving.questions.stores import StoreRegistry
from serving.storage.tables import Activity
from tally.errors import UnknownName
from tests.support.serving.serving_world import MemoryViews, World


def test_a_new_store_is_known_with_its_first_receipt_however_often_it_was_asked_for_before() -> (
    None
):
    world = World()
    stores = KnownStores(MemoryViews(world), StoreRegistry({}, "UTC", "EUR"))
    for _ in range(3):
        with pytest.raises(UnknownName, match="no event of it has arrived yet"):
            asyncio.run(stores.check(["new"]))

    world.activity.append((SALES, Activity("new", date(2026, 11, 22), date(2026, 11, 22))))

    asyncio.run(stores.check(["new"]))


def test_what_could_never_be_an_id_is_asked_of_nobody() -> None:
    views = MemoryViews(World())
    views.is_down = True

    with pytest.raises(UnknownName):
        asyncio.run(KnownStores(views, StoreRegistry({}, "UTC", "EUR")).check(["a b"]))
