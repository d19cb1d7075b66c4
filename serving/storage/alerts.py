"""The protocol of readers of the stored alerts."""

from collections.abc import Sequence
from datetime import date
from typing import Protocol

from tally.alerts.message import Alert


class AlertReader(Protocol):
    """Reads of the alerts that the projector has written; it may lag behind the topic by moments.

    Every method raises ViewsUnreachable rather than answer in part.
    """

    async def read_raised(self, store_ids: Sequence[str], day: date) -> list[Alert]:
        """The last state of each alert of the stores that was raised on a UTC day, in no order."""
        ...

    async def read_open(self, store_ids: Sequence[str]) -> list[Alert]:
        """The last state of each open raise of the stores, in no order."""
        ...

    async def read_life(self, alert_id: str) -> list[Alert]:
        """All messages of an alert and, for a raise, those of its ends, in no order.

        States before a retraction by an erasure are absent; the list is empty for an unknown id.
        """
        ...
