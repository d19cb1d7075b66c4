"""Reads of the alerts from Cassandra, with LOCAL_QUORUM."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import date

from runtime.cassandra.chunks import chunks
from serving.storage import statements
from serving.storage.connection import Connection
from serving.storage.offload import run_in_thread_if_large
from tally.alerts.message import Alert, decode_alert

# Partitions of stores that one SELECT names.
STORES_AT_ONCE = 100


class CassandraAlerts:
    """An AlertReader over the connection of the views."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read_raised(self, store_ids: Sequence[str], day: date) -> list[Alert]:
        """One partition for each store."""
        lots = chunks(store_ids, STORES_AT_ONCE)
        return await self._alerts(statements.ALERTS_RAISED, ((lot, day) for lot in lots))

    async def read_open(self, store_ids: Sequence[str]) -> list[Alert]:
        """One partition for each store; it holds only open alerts."""
        lots = chunks(store_ids, STORES_AT_ONCE)
        return await self._alerts(statements.ALERTS_OPEN, ((lot,) for lot in lots))

    async def read_life(self, alert_id: str) -> list[Alert]:
        """One partition."""
        return await self._alerts(statements.ALERT_LIFE, [(alert_id,)])

    async def _alerts(
        self,
        statement: str,
        bindings: Iterable[tuple[object, ...]],
    ) -> list[Alert]:
        answers = await asyncio.gather(
            *(self._connection.rows(statement, values) for values in bindings)
        )
        # An erasure leaves the row, and removes its message.
        messages = [message for rows in answers for (message,) in rows if message is not None]
        return await run_in_thread_if_large(len(messages), _decode, messages)


def _decode(messages: Sequence[str]) -> list[Alert]:
    return [decode_alert(message) for message in messages]
