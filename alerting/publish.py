"""`python -m alerting.publish`: files the topic `alerts` in Cassandra, at least once.

A repeated write changes nothing, in any order:

    alerts_byday   timestamp: rank of the state    the last state stays
    alert_life     timestamp: rank of the state    a row for each state, that an erasure empties
    alerts_open    timestamp: rows of alert_life   there or not, by the writer with the most rows
    alert_position timestamp: the offset           the furthest one stays

Whether a raise is open depends on its own states and on those of its ends, so on no single message.
It is decided by all rows of its life, which are read after they were written. The number of rows
grows with each message, and of two writers the one with more rows has seen all that the other one
has (alerting/alert/current_state.py). A deletion of the open row has that number as its timestamp
too.
"""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from threading import Event
from typing import Any, NamedTuple

import msgspec
import structlog

from alerting.alert.current_state import STATE_RANKS, episode_ids, open_alert, state_rank
from alerting.stream.feed import TOPIC
from alerting.stream.place import clamp_position, position_at
from runtime.cassandra.writes import Group, prepare_idempotent, read_many, write_groups
from runtime.connect import cassandra_session
from runtime.kafka.tail import Tail, TopicRecord, TopicState, read_topic_id, read_topic_state
from runtime.process.heartbeat import Heartbeat
from runtime.process.job import NotifyingEvent, run_until_stopped, signal_ready
from tally.alerts.message import Alert, decode_alert
from tally.config.settings import Settings
from tally.errors import BadInstant, CassandraTimeout, StackError
from tally.time.instants import parse_instant

_BY_DAY = (
    "INSERT INTO alerts_byday (store_id, day, raised_at, alert_id, rule_id, severity, state, edge,"
    " late, message) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
)
_LIFE = (
    "INSERT INTO alert_life (alert_id, told_id, state, message)"
    " VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
)
# Not an INSERT, which would create a row for a state that was never sent; the rows are counted.
_EMPTY = (
    "UPDATE alert_life USING TIMESTAMP ? SET message = null"
    " WHERE alert_id = ? AND told_id = ? AND state = ?"
)
_LIFE_OF = "SELECT message FROM alert_life WHERE alert_id = ?"
_OPEN = "INSERT INTO alerts_open (store_id, alert_id, message) VALUES (?, ?, ?) USING TIMESTAMP ?"
_CLOSE = "DELETE FROM alerts_open USING TIMESTAMP ? WHERE store_id = ? AND alert_id = ?"
_STORE_POSITION = (
    "INSERT INTO alert_position (topic_id, partition, until) VALUES (?, ?, ?) USING TIMESTAMP ?"
)
_LOAD_POSITION = "SELECT partition, until FROM alert_position WHERE topic_id = ?"
# Below the timeout of the watcher of the heartbeat.
_SECONDS = 30.0
_MAX_RECORDS, _POLL_SECONDS, _RETRY_SECONDS = 500, 0.5, 1.0
# The interval of the checks whether the topic was re-created.
_TOPIC_CHECK_SECONDS = 5.0

log = structlog.get_logger()


class FiledAlert(NamedTuple):
    """A message of the topic: the parsed alert and the original text."""

    alert: Alert
    message: str


class AlertTables:
    """Writes to the alert tables with prepared statements. Each method raises CassandraTimeout."""

    def __init__(self, session: Any) -> None:
        self._session = session
        texts = (_BY_DAY, _LIFE, _EMPTY, _LIFE_OF, _OPEN, _CLOSE, _STORE_POSITION, _LOAD_POSITION)
        self._prepared = {text: prepare_idempotent(session, text) for text in texts}

    def write_alerts(self, filed: Sequence[FiledAlert]) -> None:
        """Write the messages to all tables and wait for them."""
        groups = (group for entry in filed for group in self._alert_groups(entry))
        write_groups(self._session, groups, _SECONDS)
        stores = {episode_ids(entry.alert)[-1]: entry.alert.store_id for entry in filed}
        # Read after all writes: otherwise two messages of one raise might each miss the other.
        keys = [(alert_id,) for alert_id in stores]
        lives = read_many(self._session, self._prepared[_LIFE_OF], keys, _SECONDS)
        lives_read = zip(stores.items(), lives, strict=True)
        open_or_not = ([self._open_statement(*raised, rows)] for raised, rows in lives_read)
        write_groups(self._session, open_or_not, _SECONDS)

    def store_position(self, topic_id: str, until: Mapping[int, int]) -> None:
        """Store how far the topic is filed, and wait for the write."""
        rows = ((topic_id, partition, offset, offset) for partition, offset in until.items())
        # The position is written last: after a kill, records are filed again without effect.
        groups = ([self._bind(_STORE_POSITION, *row)] for row in rows)
        write_groups(self._session, groups, _SECONDS)

    def load_position(self, topic_id: str) -> dict[int, int]:
        """The first offset not yet filed, by partition; partitions never filed are absent."""
        keys = [(topic_id,)]
        (rows,) = read_many(self._session, self._prepared[_LOAD_POSITION], keys, _SECONDS)
        return {row.partition: row.until for row in rows}

    def _alert_groups(self, filed: FiledAlert) -> Iterator[Group]:
        alert, rank = filed.alert, state_rank(filed.alert)
        raised_at = parse_instant(alert.raised_at, "raised_at")
        place = (alert.store_id, raised_at.date(), raised_at, alert.alert_id)
        fields = (alert.rule_id, alert.severity, alert.state, alert.edge, alert.late)
        yield [self._bind(_BY_DAY, *place, *fields, filed.message, rank)]
        for alert_id in episode_ids(alert):
            row = (alert_id, alert.alert_id, alert.state, filed.message, rank)
            group = [self._bind(_LIFE, *row)]
            if alert.reason == "erasure":
                states = (state for state in STATE_RANKS if state != alert.state)
                keys = ((alert_id, alert.alert_id, state) for state in states)
                group += [self._bind(_EMPTY, rank, *key) for key in keys]
            yield group

    def _open_statement(self, alert_id: str, store_id: str, rows: Sequence[Any]) -> Any:
        messages = [row.message for row in rows if row.message is not None]
        # The original text is stored, because it may have fields that this version does not know.
        texts = {decode_alert(message): message for message in messages}
        raised = open_alert(alert_id, texts)
        # The rows are counted, not the messages: an erasure empties rows and removes none.
        if raised is None:
            return self._bind(_CLOSE, len(rows), store_id, alert_id)
        return self._bind(_OPEN, store_id, alert_id, texts[raised], len(rows))

    def _bind(self, text: str, *values: object) -> Any:
        return self._prepared[text].bind(values)


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


def main() -> int:
    """Exit code: 0 after a stop signal, 1 on an error that a restart may cure, 78 if refused."""
    return run_until_stopped("projector", run)


def run(stopped: Event) -> None:
    """File until stopped. Raises BadSettings, StackError."""
    settings = Settings.load()
    # Read by the watcher, or by the health check of the container.
    heartbeat = Heartbeat(settings.heartbeat_file)
    with cassandra_session(settings) as session:
        projector = Projector(settings, TOPIC, AlertTables(session), heartbeat)
        projector.run(stopped, NotifyingEvent(lambda: signal_ready(settings)))


if __name__ == "__main__":
    sys.exit(main())
