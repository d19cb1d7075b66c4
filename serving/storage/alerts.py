"""Reads of the stored alerts, with LOCAL_QUORUM."""

from collections.abc import Iterable, Sequence
from datetime import date

from runtime.cassandra.reads import chunks
from runtime.http.work_pools import run_in_thread_if_large
from serving.storage import statements
from serving.storage.connection import Connection
from tally.alerts.message import Alert, decode_alert

# Partitions of stores that one SELECT names.
STORES_AT_ONCE = 100


class AlertReader:
    """Reads of the alerts that the projector has written; it may lag behind the topic by moments.

    Every method raises ViewsUnreachable rather than answer in part.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read_raised(self, store_ids: Sequence[str], day: date) -> list[Alert]:
        """The last state of each alert of the stores that was raised on a UTC day, in no order."""
        lots = chunks(store_ids, STORES_AT_ONCE)
        return await self._alerts(statements.ALERTS_RAISED, ((lot, day) for lot in lots))

    async def read_open(self, store_ids: Sequence[str]) -> list[Alert]:
        """The last state of each open raise of the stores, in no order."""
        lots = chunks(store_ids, STORES_AT_ONCE)
        return await self._alerts(statements.ALERTS_OPEN, ((lot,) for lot in lots))

    async def read_life(self, alert_id: str) -> list[Alert]:
        """All messages of an alert and, for a raise, those of its ends, in no order.

        States before a retraction by an erasure are absent; the list is empty for an unknown id.
        """
        return await self._alerts(statements.ALERT_LIFE, [(alert_id,)])

    async def _alerts(
        self,
        statement: str,
        bindings: Iterable[tuple[object, ...]],
    ) -> list[Alert]:
        rows = await self._connection.gather(statement, bindings)
        # An erasure leaves the row, and removes its message.
        messages = [message for (message,) in rows if message is not None]
        return await run_in_thread_if_large(len(messages), _decode, messages)


def _decode(messages: Sequence[str]) -> list[Alert]:
    return [decode_alert(message) for message in messages]
