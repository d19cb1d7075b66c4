"""Finds whether a family was ever measured at a store; else there is no number and no zero."""

from dataclasses import replace

from serving.cells.coverage import SensorRoster
from serving.merge.reading import Pointers, StoreDays, read_store
from serving.merge.served import FamilyReading
from serving.questions.stores import Store
from serving.storage.protocol import ViewReader


async def read_family(
    views: ViewReader, store: Store, pointers: Pointers, wanted: StoreDays
) -> FamilyReading:
    """The rows of both layers for a store, and whether it ever had a sensor of the family.

    Raises ViewsUnreachable.
    """
    reading = await read_store(views, pointers, wanted)
    family = reading.family
    # Only the other stores are looked up: most have rows, or list their sensors.
    if not family.listed_as or reading.rows or SensorRoster.from_store(store, [family]).by_family:
        return reading
    is_measured = await views.has_events(store.store_id, [family])
    return replace(reading, is_measured=is_measured)
