"""A store where it is three in the morning now: its last day is over, and its key still there."""

from datetime import UTC, datetime
from typing import Any

STORE, NETWORK = "night", "L_900"
_HOUR = 3


def entry() -> dict[str, Any]:
    """What a stores file has to say of it."""
    offset = (_HOUR - datetime.now(UTC).hour + 11) % 24 - 11
    # The names of these zones have the sign of the way back to Greenwich.
    return {"tz": f"Etc/GMT{-offset:+d}" if offset else "UTC", "networks": [NETWORK]}
