"""Files the topic `alerts`, record by record, at least once."""

import time
from collections.abc import Iterator, Sequence
from threading import Event

import msgspec
import structlog

from runtime.heartbeat import Heartbeat
from runtime.tail import Tail, TailedRecord, TopicNow, topic_id_now, topic_now
from serving.alerts.projection.tables import AlertTables, FiledAlert
from serving.alerts.stream.place import mended, place_at
from tally.alerts.message import alert_of
from tally.errors import BadInstant, StackError, Unanswered
from tally.instants import parse_instant
from tally.settings import Settings

_MOST_AT_ONCE, _POLL_SECONDS, _AGAIN_SECONDS = 500, 0.5, 1.0
# How soon it is seen that the topic was made anew.
_LOOK_SECONDS = 5.0

log = structlog.get_logger()


class Projector:
    """The topic read from where the tables are to its end, and on as it comes."""

    def __init__(
        self, settings: Settings, topic: str, tables: AlertTables, heartbeat: Heartbeat
    ) -> None:
        self._settings, self._topic = settings, topic
        self._tables, self._heartbeat = tables, heartbeat

    def run(self, stopped: Event, ready: Event) -> None:
        """File until stopped, whoever is away meanwhile; sets `ready` once the topic is read."""
        while not stopped.is_set():
            try:
                self._follow(stopped, ready)
            # What was read and not filed is read again: the place is kept behind what is filed.
            except (StackError, Unanswered) as error:
                log.warning("alerts cannot be filed", reason=str(error))
                self._heartbeat.beat(None, True)
                stopped.wait(_AGAIN_SECONDS)

    def _follow(self, stopped: Event, ready: Event) -> None:
        """File until the topic is another one. Raises StackError, Unanswered."""
        now = topic_now(self._settings, self._topic)
        kept = self._kept(now)
        with Tail(self._settings, self._topic, kept) as tail:
            looked = time.monotonic()
            # The heartbeat is of this loop: a hang of either client shows in it.
            while not stopped.is_set():
                ready.set()
                filed = [*_filed(tail.read(_MOST_AT_ONCE, _POLL_SECONDS))]
                if filed:
                    self._tables.file(filed)
                # Moved by markers alone too, or a quiet topic would seem to be unread.
                if tail.until != kept:
                    kept = dict(tail.until)
                    self._tables.keep(now.topic_id, kept)
                self._heartbeat.beat(kept, len(tail.ended) < len(kept))
                if time.monotonic() - looked > _LOOK_SECONDS:
                    looked = time.monotonic()
                    if topic_id_now(self._settings, self._topic) != now.topic_id:
                        return

    def _kept(self, now: TopicNow) -> dict[int, int]:
        """Where to go on, by partition; what is gone is passed, and said."""
        filed = self._tables.kept(now.topic_id)
        offsets = [filed.get(number, 0) for number, _ in enumerate(now.bounds)]
        kept = place_at(now.topic_id, offsets)
        going_on = mended(kept, now.topic_id, now.bounds)
        # Of a topic that was never filed nothing has been missed.
        if filed and going_on != kept:
            log.warning("alerts were gone before they were filed", at=kept, going_on=going_on)
        return dict(enumerate(going_on.offsets))


def _filed(records: Sequence[TailedRecord]) -> Iterator[FiledAlert]:
    for one in records:
        try:
            alert = alert_of(one.value)
            # Asked here: what has no day can be filed nowhere.
            parse_instant(alert.raised_at, "raised_at")
            yield FiledAlert(alert, one.value.decode())
        # No record may hold up those behind it.
        except (msgspec.DecodeError, BadInstant) as error:
            place = f"{one.partition}:{one.offset}"
            log.warning("a record of alerts cannot be read", place=place, reason=str(error))
