"""Who is inside a twin store by what its counters sent: summed anew for each instant."""

from datetime import date, datetime, timedelta

from ingest.senders.twin.people import TwinStore
from tests.support.twin.twin import CLOSES, DAY_STARTS, TwinStory


def crossings(story: TwinStory, store: TwinStore) -> dict[datetime, int]:
    """How many more were counted in than out, by quarter hour (UTC)."""
    counted = story.expected("traffic").items()
    return {cell[1]: parts[0] - parts[1] for cell, parts in counted if cell[0] == store.store_id}


def inside(crossed: dict[datetime, int], store: TwinStore, end: str) -> int:
    """Their sum up to the instant since the day began that ends there, or goes on behind it."""
    last = datetime.fromisoformat(end) - timedelta(minutes=15)
    before = {at: more for at, more in crossed.items() if at <= last}
    day = own_day(store, last)
    return sum(more for at, more in before.items() if own_day(store, at) == day)


def own_day(store: TwinStore, at: datetime) -> date:
    """The day of a store by what its clock shows."""
    begins = DAY_STARTS.hour if store.closes == CLOSES else 0
    shown = at.astimezone(store.zone).replace(tzinfo=None)
    return (shown - timedelta(hours=begins)).date()
