"""The alerts as they were told, and the protocol of whoever reads them."""

from collections.abc import Sequence
from datetime import date
from typing import Protocol

from tally.alerts.message import Alert


class AlertReader(Protocol):
    """Reads of what the projector has written; it may be some moments behind the topic.

    Every method raises ViewsUnreachable rather than answer in part.
    """

    async def raised(self, store_ids: Sequence[str], day: date) -> list[Alert]:
        """The last state of each alert of the stores that was raised on a UTC day, in no order."""
        ...

    async def open(self, store_ids: Sequence[str]) -> list[Alert]:
        """The last state of each raise of the stores that is open, in no order."""
        ...

    async def life(self, alert_id: str) -> list[Alert]:
        """All that was told of an alert and, of a raise, of its ends, in no order.

        Without the states before a retraction by an erasure; empty for an id that nobody knows.
        """
        ...
