"""The tables of alerts, written so that a repeated write changes nothing, in any order.

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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from alerting.alert.current_state import STATE_RANKS, episode_ids, open_alert, state_rank
from runtime.cassandra.reads import read_many
from runtime.cassandra.writes import Group, prepare_idempotent, write_groups
from tally.alerts.message import Alert, decode_alert
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
        lives = read_many(
            self._session, self._prepared[_LIFE_OF], [(alert_id,) for alert_id in stores], _SECONDS
        )
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
            yield [self._bind(_LIFE, *row), *self._empty_statements(alert_id, alert)]

    def _empty_statements(self, alert_id: str, alert: Alert) -> Iterable[Any]:
        if alert.reason != "erasure":
            return []
        before = (state for state in STATE_RANKS if state != alert.state)
        rank = state_rank(alert)
        return [self._bind(_EMPTY, rank, alert_id, alert.alert_id, earlier) for earlier in before]

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
