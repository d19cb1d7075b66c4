"""The tables of alerts, written so that any repeat, in any order, by anybody, changes nothing.

    alerts_byday   timestamp: rank of the state    the last state stays
    alert_life     timestamp: rank of the state    a row for each state, that an erasure empties
    alerts_open    timestamp: rows of alert_life   there or not, as those who have heard most say
    alert_position timestamp: the offset           the furthest one stays

Whether a raise is open hangs on its own states and on those of its ends, so on no single message.
It is decided by all rows of its life, read after they were written; the number of rows grows with
each message, and of two writers the one with more of them has heard all that the other one has
(tally/alerts/standing.py). Its row is deleted with that number for a timestamp too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from runtime.reads import read_many
from runtime.writes import Group, prepared, write_groups
from tally.alerts.message import Alert, alert_of
from tally.alerts.standing import RANKS, life_ids, open_alert, rank_of
from tally.instants import parse_instant

_BY_DAY = (
    "INSERT INTO alerts_byday (store_id, day, raised_at, alert_id, rule_id, severity, state, edge,"
    " late, message) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
)
_LIFE = (
    "INSERT INTO alert_life (alert_id, told_id, state, message)"
    " VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
)
# No INSERT: it would make a row of a state that was never told, and the rows are counted.
_EMPTY = (
    "UPDATE alert_life USING TIMESTAMP ? SET message = null"
    " WHERE alert_id = ? AND told_id = ? AND state = ?"
)
_LIFE_OF = "SELECT message FROM alert_life WHERE alert_id = ?"
_OPEN = "INSERT INTO alerts_open (store_id, alert_id, message) VALUES (?, ?, ?) USING TIMESTAMP ?"
_CLOSE = "DELETE FROM alerts_open USING TIMESTAMP ? WHERE store_id = ? AND alert_id = ?"
_KEEP = "INSERT INTO alert_position (topic_id, partition, until) VALUES (?, ?, ?) USING TIMESTAMP ?"
_KEPT = "SELECT partition, until FROM alert_position WHERE topic_id = ?"
# Below the patience of whoever watches the heartbeat.
_SECONDS = 30.0


class FiledAlert(NamedTuple):
    """A message of the topic: as a value, and as the text that it came as."""

    alert: Alert
    message: str


class AlertTables:
    """The statements, prepared in one session. Each method raises Unanswered."""

    def __init__(self, session: Any) -> None:
        self._session = session
        texts = (_BY_DAY, _LIFE, _EMPTY, _LIFE_OF, _OPEN, _CLOSE, _KEEP, _KEPT)
        self._prepared = {text: prepared(session, text) for text in texts}

    def file(self, filed: Sequence[FiledAlert]) -> None:
        """Block until every table has the messages."""
        groups = (group for one in filed for group in self._told(one))
        write_groups(self._session, groups, _SECONDS)
        stores = {life_ids(one.alert)[-1]: one.alert.store_id for one in filed}
        # After the writes of all: else of two messages of one raise each might miss the other.
        lives = read_many(
            self._session, self._prepared[_LIFE_OF], [(one,) for one in stores], _SECONDS
        )
        stands = zip(stores.items(), lives, strict=True)
        open_or_not = ([self._stands(*raised, rows)] for raised, rows in stands)
        write_groups(self._session, open_or_not, _SECONDS)

    def keep(self, topic_id: str, until: Mapping[int, int]) -> None:
        """Block until it is kept how far the topic is filed."""
        rows = ((topic_id, partition, offset, offset) for partition, offset in until.items())
        # The place comes last: what is read again after a kill changes nothing.
        groups = ([self._bound(_KEEP, *row)] for row in rows)
        write_groups(self._session, groups, _SECONDS)

    def kept(self, topic_id: str) -> dict[int, int]:
        """The first offset not yet filed, by partition; those of which nothing is are absent."""
        asked = [(topic_id,)]
        (rows,) = read_many(self._session, self._prepared[_KEPT], asked, _SECONDS)
        return {row.partition: row.until for row in rows}

    def _told(self, filed: FiledAlert) -> Iterator[Group]:
        alert, rank = filed.alert, rank_of(filed.alert)
        raised_at = parse_instant(alert.raised_at, "raised_at")
        place = (alert.store_id, raised_at.date(), raised_at, alert.alert_id)
        told = (alert.rule_id, alert.severity, alert.state, alert.edge, alert.late)
        yield [self._bound(_BY_DAY, *place, *told, filed.message, rank)]
        for alert_id in life_ids(alert):
            row = (alert_id, alert.alert_id, alert.state, filed.message, rank)
            yield [self._bound(_LIFE, *row), *self._emptied(alert_id, alert)]

    def _emptied(self, alert_id: str, alert: Alert) -> Iterable[Any]:
        if alert.reason != "erasure":
            return []
        before = (state for state in RANKS if state != alert.state)
        rank = rank_of(alert)
        return [self._bound(_EMPTY, rank, alert_id, alert.alert_id, one) for one in before]

    def _stands(self, alert_id: str, store_id: str, rows: Sequence[Any]) -> Any:
        messages = [row.message for row in rows if row.message is not None]
        # As it came, and not written anew: it may have fields that are new to us.
        told = {alert_of(one): one for one in messages}
        stands = open_alert(alert_id, told)
        # The rows and not the messages: an erasure empties some and takes no row away.
        if stands is None:
            return self._bound(_CLOSE, len(rows), store_id, alert_id)
        return self._bound(_OPEN, store_id, alert_id, told[stands], len(rows))

    def _bound(self, text: str, *values: object) -> Any:
        return self._prepared[text].bind(values)
