"""Files the topic `alerts`, record by record, at least once."""

import time
from collections.abc import Iterator, Sequence
from threading import Event

import msgspec
import structlog

from alerting.publish.tables import AlertTables, FiledAlert
from alerting.stream.place import clamp_position, position_at
from runtime.kafka.tail import Tail, TopicRecord, TopicState, read_topic_id, read_topic_state
from runtime.process.heartbeat import Heartbeat
from tally.alerts.message import decode_alert
from tally.config.settings import Settings
from tally.errors import BadInstant, CassandraTimeout, StackError
from tally.time.instants import parse_instant

_MAX_RECORDS, _POLL_SECONDS, _RETRY_SECONDS = 500, 0.5, 1.0
# The interval of the checks whether the topic was re-created.
_TOPIC_CHECK_SECONDS = 5.0

log = structlog.get_logger()


class Projector:
    """Reads the topic from the stored position to its end, and then each new record."""

    def __init__(
        self, settings: Settings, topic: str, tables: AlertTables, heartbeat: Heartbeat
    ) -> None:
        self._settings, self._topic = settings, topic
        self._tables, self._heartbeat = tables, heartbeat

    def run(self, stopped: Event, ready: Event) -> None:
        """File until stopped, through outages too; sets `ready` once the topic is being read."""
        while not stopped.is_set():
            try:
                self._follow(stopped, ready)
            # Records that were not filed are read again: the stored position is behind filed ones.
            except (StackError, CassandraTimeout) as error:
                log.warning("alerts cannot be filed", reason=str(error))
                self._heartbeat.beat(None, True)
                stopped.wait(_RETRY_SECONDS)

    def _follow(self, stopped: Event, ready: Event) -> None:
        """File until the topic is re-created. Raises StackError, CassandraTimeout."""
        now = read_topic_state(self._settings, self._topic)
        offsets = self._start_offsets(now)
        with Tail(self._settings, self._topic, offsets) as tail:
            checked_at = time.monotonic()
            # This loop writes the heartbeat, so that a hang of either client shows in it.
            while not stopped.is_set():
                ready.set()
                filed = [*_read_alerts(tail.read(_MAX_RECORDS, _POLL_SECONDS))]
                if filed:
                    self._tables.write_alerts(filed)
                # Transaction markers alone move it too, or a quiet topic would seem to be unread.
                if tail.until != offsets:
                    offsets = dict(tail.until)
                    self._tables.store_position(now.topic_id, offsets)
                self._heartbeat.beat(offsets, len(tail.ended) < len(offsets))
                if time.monotonic() - checked_at > _TOPIC_CHECK_SECONDS:
                    checked_at = time.monotonic()
                    if read_topic_id(self._settings, self._topic) != now.topic_id:
                        return

    def _start_offsets(self, now: TopicState) -> dict[int, int]:
        """The offset to continue from, by partition; missing records are skipped and logged."""
        filed = self._tables.load_position(now.topic_id)
        offsets = [filed.get(number, 0) for number, _ in enumerate(now.bounds)]
        place = position_at(now.topic_id, offsets)
        going_on = clamp_position(place, now.topic_id, now.bounds)
        # In a topic that was never filed, nothing has been missed.
        if filed and going_on != place:
            log.warning("alerts were gone before they were filed", at=place, going_on=going_on)
        return dict(enumerate(going_on.offsets))


def _read_alerts(records: Sequence[TopicRecord]) -> Iterator[FiledAlert]:
    for record in records:
        try:
            alert = decode_alert(record.value)
            # Checked here, because an alert without a day cannot be filed.
            parse_instant(alert.raised_at, "raised_at")
            yield FiledAlert(alert, record.value.decode())
        # An unreadable record must not block those behind it.
        except (msgspec.DecodeError, BadInstant) as error:
            place = f"{record.partition}:{record.offset}"
            log.warning("a record of alerts cannot be read", place=place, reason=str(error))
