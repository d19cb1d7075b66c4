"""A subscriber whose connections are cut within events, and who keeps his place with what he did:
he has each alert once."""

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import httpx
import pytest

from alerting.stream.place import StreamPosition, encode_position, parse_position, position_at
from runtime.kafka.reader import read_to_end
from runtime.kafka.tail import read_topic_state
from tally.alerts.message import decode_alert
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tests.controls.layers.scalar_id import resumed_in_one_partition
from tests.integration.serving.alerts.short_wire import ShortWire
from tests.integration.serving.alerts.test_alert_stream import (
    ALERTS,
    DROPS,
    STORES,
    send_interleaved,
    serving,
)
from tests.support.clients.sse import EventSource

# An alert is some 900 bytes: a connection has some of them, or not all of its first.
MAX_BYTES = 4_000


@pytest.fixture
def server(own_settings: Settings, topic: str) -> Iterator[str]:
    with serving(own_settings, topic) as (_, url):
        yield url


class HadAlert(NamedTuple):
    """What the subscriber did about an alert."""

    store_id: str
    alert_id: str


class Subscriber:
    """Keeps in one transaction what he did about an event, and the event's id.

    Nothing else outlives a connection of his. `begins_at` makes of the kept id, and of the store of
    the last event, the id that he comes again with.
    """

    def __init__(self, file: Path, begins_at: Callable[[str, str], str]) -> None:
        self._kept = sqlite3.connect(file)
        self._begins_at = begins_at
        self._kept.execute("CREATE TABLE had (store_id, alert_id)")
        self._kept.execute("CREATE TABLE place (id, store_id)")
        self._kept.execute("INSERT INTO place VALUES ('', '')")

    def hear(self, url: str, is_enough: Callable[[StreamPosition], bool] = lambda _: False) -> None:
        """One connection, until it breaks or what was heard is enough."""
        source = EventSource(url, last_id=self._begins_at(*self._place()))
        try:
            with source.connected() as events:
                for name, content in events:
                    self._keep(source.last_id, content if name == "alert" else None)
                    if is_enough(parse_position(source.last_id)):
                        return
        except httpx.TransportError:
            return

    def had(self) -> list[HadAlert]:
        """All that he did, in its order."""
        return [HadAlert(*row) for row in self._kept.execute("SELECT * FROM had ORDER BY rowid")]

    def close(self) -> None:
        self._kept.close()

    def _place(self) -> tuple[str, str]:
        last_id, store_id = self._kept.execute("SELECT id, store_id FROM place").fetchone()
        return last_id, store_id

    def _keep(self, last_id: str, alert: dict[str, str] | None) -> None:
        with self._kept:
            self._kept.execute("UPDATE place SET id = ?", (last_id,))
            if alert is not None:
                row = alert["store_id"], alert["alert_id"]
                self._kept.execute("INSERT INTO had VALUES (?, ?)", row)
                self._kept.execute("UPDATE place SET store_id = ?", row[:1])


def cut_story(
    settings: Settings, topic: str, url: str, subscriber: Subscriber
) -> tuple[list[HadAlert], int]:
    """What a subscriber had once he has come to the topic's end; and how many cuts were within an
    event."""
    rng = random.Random(2013)
    address, path = url.removeprefix("http://").split("/", 1)
    lengths = iter([rng.randint(1, MAX_BYTES) for _ in range(2 * DROPS)])
    with closing(ShortWire(address, lambda: next(lengths, None))) as wire:
        # Where he begins: before the first alert.
        subscriber.hear(url, is_enough=lambda _: True)
        sender = Thread(target=send_interleaved, args=(settings, topic))
        sender.start()
        while len(wire.ends) < 2 * DROPS:
            subscriber.hear(f"http://127.0.0.1:{wire.port}/{path}")
        sender.join()
    end = place_now(settings, topic)
    # The place alone comes too, so that whoever lacks something is not waited for.
    subscriber.hear(
        url, is_enough=lambda place: place.advance_to(dict(enumerate(end.offsets))) == place
    )
    return subscriber.had(), wire.within_an_event


def place_now(settings: Settings, topic: str) -> StreamPosition:
    """The place at the topic's end."""
    now = read_topic_state(settings, topic)
    return position_at(now.topic_id, [one.end for one in now.bounds])


def of_store(alerts: list[HadAlert], store: str) -> list[HadAlert]:
    return [one for one in alerts if one.store_id == store]


def in_the_topic(settings: Settings, topic: str) -> list[HadAlert]:
    told = (decode_alert(one.value() or b"") for one in read_to_end(settings, [topic]))
    return [HadAlert(one.store_id, one.alert_id) for one in told]


def test_connections_cut_within_events_and_each_alert_once(
    own_settings: Settings, topic: str, server: str, tmp_path: Path
) -> None:
    with closing(Subscriber(tmp_path / "kept", lambda last_id, _: last_id)) as subscriber:
        had, within = cut_story(own_settings, topic, server, subscriber)

    told = in_the_topic(own_settings, topic)
    assert (len(told), within >= DROPS) == (ALERTS, True)
    for store in STORES:
        # Each once, and in the order of its partition.
        assert of_store(had, store) == of_store(told, store)


def test_by_ids_of_an_events_own_offset_alone_alerts_are_lost(
    own_settings: Settings, topic: str, server: str, tmp_path: Path
) -> None:
    def begins_at(last_id: str, store_id: str) -> str:
        here = place_now(own_settings, topic)
        number = partition_number(store_id, own_settings.partitions)
        # Before the first event there is no offset, and he begins as anybody does.
        last = resumed_in_one_partition(parse_position(last_id), number, here) if store_id else None
        return encode_position(last) if last else last_id

    with closing(Subscriber(tmp_path / "kept", begins_at)) as subscriber:
        had, _ = cut_story(own_settings, topic, server, subscriber)

    told = in_the_topic(own_settings, topic)
    assert len(told) == ALERTS
    assert set(told) - set(had)
