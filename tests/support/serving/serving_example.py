"""The example world of the API's tests: a settled day, a day that only speed knows, a dirty day,
two currencies, traffic."""

from datetime import date

from runtime.registry.sources import SALES, TRAFFIC
from serving.storage.tables import Activity
from tests.support.serving.serving_world import World, at, counted, flip, sale

SETTLED, NEW, DIRTY = "2017-09-19", "2017-09-20", "2017-09-21"


def example() -> World:
    """Store 367 (partition 1), 406 (partition 0) and 500 (partition 2); generations 5 and 7 of
    the settled day, 8 of the dirty one."""
    return World(
        rows=[
            sale("367", f"{SETTLED}T10:00", 2, 300, generation=7),
            sale("367", f"{SETTLED}T10:00", 2, 300),
            # The speed layer lost a late receipt here: batch knows more.
            sale("367", f"{SETTLED}T10:15", 3, 700, returns=100, generation=7),
            sale("367", f"{SETTLED}T10:15", 2, 500),
            # And here it is ahead of batch, by a receipt beside the conflict that batch gives back.
            sale("367", f"{SETTLED}T10:30", 2, 400, generation=7, receipts=1, excluded=50),
            sale("367", f"{SETTLED}T10:30", 3, 950),
            # Generation 5 had not seen the second receipt.
            sale("367", f"{SETTLED}T11:00", 2, 800, generation=7),
            sale("367", f"{SETTLED}T11:00", 1, 300, generation=5),
            sale("367", f"{SETTLED}T10:00", 2, 300, generation=5),
            sale("367", f"{SETTLED}T10:15", 3, 700, returns=100, generation=5),
            sale("367", f"{NEW}T08:00", 4, 1000),
            sale("367", f"{DIRTY}T09:00", 1, 250, generation=8),
            sale("406", f"{SETTLED}T10:00", 1, 90, generation=7),
            sale("500", f"{SETTLED}T10:00", 3, 60, generation=7, currency="EUR", receipts=2),
            sale("500", f"{SETTLED}T10:00", 3, 10, generation=7, currency="USD", receipts=1),
            counted("367", f"{SETTLED}T10:00", 5, 10, generation=7),
        ],
        pointers=[
            (SALES, flip(SETTLED, 5, f"{NEW}T01:00", pin=50)),
            (SALES, flip(SETTLED, 7, "2017-09-22T00:00", pin=100)),
            (SALES, flip(DIRTY, 8, "2017-09-22T01:00", pin=100, covered_until=f"{DIRTY}T12:00")),
            (TRAFFIC, flip(SETTLED, 7, "2017-09-22T00:00", pin=100)),
        ],
        master=[
            (SALES, date(2017, 9, 19), 1, 100),
            (SALES, date(2017, 9, 21), 1, 101),
            (SALES, date(2017, 9, 21), 0, 40),
        ],
        speed=[(SALES, 0, 40), (SALES, 1, 120), (TRAFFIC, 1, 9)],
        late=[(SALES, at("2017-09-21T23:00"), 5), (SALES, at("2017-09-22T00:30"), 2)],
        activity=[
            (SALES, Activity(store, date(2017, 9, 19), date(2017, 9, 21)))
            for store in ("367", "406", "500")
        ],
    )
