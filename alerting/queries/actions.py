"""Actions of people on an alert: acknowledge it, snooze it, resolve it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from confluent_kafka import KafkaException

from alerting.alert.resolution import AlertResolution, require_open
from alerting.alert.resolution_writer import write_resolution
from alerting.deliver.state.control_writer import write_controls
from alerting.deliver.state.controls import Acknowledgement, Snooze
from alerting.queries.alerts import AlertQueryService, ListedAlert
from tally.config.settings import Settings
from tally.errors import Busy, EditsRefused, SendFailed, StackError, ViewsUnreachable
from tally.time.instants import to_millis

ActionRecord: TypeAlias = Acknowledgement | Snooze | AlertResolution
# Returns once the brokers have acknowledged the record. Raises SendFailed.
ActionWriter: TypeAlias = Callable[[ActionRecord], None]
# Without brokers a write takes half a minute; further ones are refused instead of piling up.
MAX_WAITING = 16
_MINUTE_MILLIS = 60_000


def topic_writer(settings: Settings) -> ActionWriter:
    """A writer to the topics of `tally alerts ack`, `snooze` and `resolve`."""

    def write(record: ActionRecord) -> None:
        if isinstance(record, AlertResolution):
            write_resolution(settings, record)
        else:
            write_controls(settings, [record])

    return write


@dataclass
class AlertActions:
    """Actions on alerts that are looked up in the alert tables.

    Every action raises EditsRefused where the settings refuse it, UnknownName for an alert that
    does not exist, Busy, and ViewsUnreachable when the alert cannot be read or the record written.
    """

    alert_queries: AlertQueryService
    writer: ActionWriter
    is_allowed: bool
    _waiting: int = field(default=0, init=False)
    _turn: asyncio.Semaphore = field(default_factory=asyncio.Semaphore, init=False)

    @classmethod
    def from_settings(
        cls, settings: Settings, inquiry: AlertQueryService, writer: ActionWriter | None = None
    ) -> "AlertActions":
        """Build the actions from the settings; without a writer they write to Kafka topics."""
        is_allowed = settings.rule_edits == "allow"
        return cls(inquiry, topic_writer(settings) if writer is None else writer, is_allowed)

    async def acknowledge(self, alert_id: str, by: str) -> Acknowledgement:
        """Record who has taken on the alert."""
        alert = await self._find_alert(alert_id)
        record = Acknowledgement(
            alert_id=alert.alert_id, store_id=alert.store_id, at=self._now(), by=by
        )
        await self._write(record)
        return record

    async def snooze(self, alert_id: str, minutes: int, by: str) -> Snooze:
        """Withhold the alert from all channels for this many minutes; 0 ends the snooze."""
        alert = await self._find_alert(alert_id)
        until = self._now() + minutes * _MINUTE_MILLIS
        record = Snooze(alert_id=alert.alert_id, store_id=alert.store_id, until=until, by=by)
        await self._write(record)
        return record

    async def resolve(self, alert_id: str, because: str, by: str) -> AlertResolution:
        """End the alert by hand. Raises AlertNotOpen for an alert that is not open."""
        alert = await self._find_alert(alert_id)
        require_open(alert.alert_id, alert.open)
        record = AlertResolution.from_alert(alert, self._now(), by, because)
        await self._write(record)
        return record

    async def _find_alert(self, alert_id: str) -> ListedAlert:
        if not self.is_allowed:
            raise EditsRefused(
                "alerts are not acknowledged, snoozed or resolved from here (TALLY_RULE_EDITS);"
                " use `tally alerts ack`, `snooze` or `resolve` on the server"
            )
        return (await self.alert_queries.read_life(alert_id)).last

    async def _write(self, record: ActionRecord) -> None:
        if self._waiting >= MAX_WAITING:
            raise Busy(f"{MAX_WAITING} actions on alerts wait to be written; try again later")
        self._waiting += 1
        try:
            async with self._turn:
                await asyncio.to_thread(self.writer, record)
        except (KafkaException, SendFailed, StackError) as error:
            raise ViewsUnreachable(
                "the action cannot be stored right now; look at `tally status`, then try again"
            ) from error
        finally:
            self._waiting -= 1

    def _now(self) -> int:
        return to_millis(self.alert_queries.now())
