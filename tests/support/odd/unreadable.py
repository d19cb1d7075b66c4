"""Records that no normaliser writes, for the canonical topics: whoever reads one passes it, and
it becomes a dead letter."""

import json
from datetime import datetime
from typing import Any

import msgspec

from tests.support.sources.canonical import receipt

ABSENT = object()


def unreadable_records(happened_at: datetime) -> dict[str, bytes | None]:
    """Values by what is wrong with them; all would lie in the store `odd` and the quarter hour
    of `happened_at`."""
    good: dict[str, Any] = json.loads(msgspec.json.encode(receipt("odd", 1, happened_at)))

    def changed(**fields: object) -> bytes:
        return json.dumps(
            {name: value for name, value in {**good, **fields}.items() if value is not ABSENT}
        ).encode()

    spoilt = {
        f"without {name}": changed(**{name: ABSENT})
        for name in ("store_id", "event_id", "happened_at", "fingerprint", "currency")
    }
    numbers = {
        "null": None,
        "as text": "many",
        "above the most": 10**12 + 1,
        "below the least": -(10**12) - 1,
        "beyond 64 bits": 2**70,
    }
    return {
        **spoilt,
        **{f"gross {name}": changed(gross_minor=value) for name, value in numbers.items()},
        "no value at all": None,
        "empty": b"",
        "no UTF-8": b"\xff\xfe\x00\xd8" * 16,
        "no JSON": b"Milk 1l",
        "cut": changed()[:-20],
        "a list": b"[1, 2]",
        "nulls": changed(**dict.fromkeys(good)),
        "no time": changed(happened_at="half past nine"),
        "13th month": changed(happened_at="2017-13-01T00:00:00.000Z"),
        "number of 2,000 digits": changed().replace(b"{", b'{"x": 1.' + b"3" * 2000 + b", ", 1),
        "name of 60,000 characters": changed(**{"n" * 60_000: 1}),
        "nested 5,000 deep": changed().replace(
            b"{", b'{"x": ' + b"[" * 5000 + b"]" * 5000 + b", ", 1
        ),
        "six million bytes of nothing": b"x" * 6_000_000,
    }
