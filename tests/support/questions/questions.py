"""What is asked of the API of a stack with a month of receipts, what it refuses included."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

MONTH = "2017-09-01", "2017-10-01"
# The ids of /v1/metrics, which is asked too.
METRICS = (
    *("average_basket", "conversion", "gross_revenue", "revenue", "transactions", "units"),
    "visitors_in",
)
MONDAYS = "2017-09-04", "2017-09-25"
QUARTERS = "2017-09-04", "2017-09-11"
DOORS = ("367", "406", "292")


def questions() -> Iterator[dict[str, Any]]:
    months = {"from": MONTH[0], "to": MONTH[1]}
    for grain in ("1h", "1d"):
        yield {"store": "all", "grain": grain, "limit": 10_000, **months}
    yield {"store": "all", "grain": "1w", "from": MONDAYS[0], "to": MONDAYS[1]}
    for store in (*DOORS, "31", "32004"):
        yield {"store": store, "grain": "15m", "from": QUARTERS[0], "to": QUARTERS[1], "limit": 300}
    for zone in ("Europe/Rome", "America/St_Johns", "store"):
        yield {"store": ",".join(DOORS), "grain": "1d", "tz": zone, **months}
    yield {"store": ",".join(DOORS), "grain": "1d", "by": "currency", **months}


def odd_questions() -> Iterator[tuple[str, dict[str, Any]]]:
    start = datetime.fromisoformat(f"{QUARTERS[0]}T20:00:00+00:00")
    for family in ("sales", "traffic", "weather"):
        for store in DOORS:
            for number in range(12):
                at = (start + number * timedelta(minutes=15, hours=6)).isoformat()
                yield "/v1/explain", {"store": store, "window": at, "family": family}
    day = {"from": "2017-09-04", "to": "2017-09-05"}
    for wrong in (
        *(
            {"store": "367", "from": "2017-09-05", "to": "2017-09-04"},
            {"store": "nowhere", **day},
            {"store": "", **day},
        ),
        *(
            {"store": "367", "grain": "1h", "from": "2017-09-04T00:15:00Z", "to": "2017-09-05"},
            {"store": "367", "grain": "2h", **day},
        ),
        *(
            {"store": "367", "tz": "Mars/Olympus", **day},
            {"store": "367", "by": "colour", **day},
            {"store": "367", "x": "1", **day},
        ),
        *(
            {"store": "367", "from": "1066-10-14", "to": "1066-10-15"},
            {"store": "367", "as_of": "2999-01-01T00:00:00Z", **day},
        ),
    ):
        yield "/v1/metrics/revenue", wrong
    yield "/v1/metrics/happiness", {"store": "367", **day}
    yield "/v1/nothing", {}
