"""Alerts as an evaluator tells them: the same struct, in transactions, in the store's partition."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec

from tally.alerts.message import (
    Alert,
    AlertState,
    AlertWindow,
    EpisodeSpan,
    Evidence,
    ReadRows,
    encode_alert,
)
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tests.support.clients.producers import connected_producer

WINDOW = timedelta(minutes=15)
RAISED = datetime(2026, 11, 23, 9, 1, 5, tzinfo=UTC)


def told(number: int = 1, store: str = "367", **more: Any) -> Alert:
    """The first message of a raise, a number of it, raised so many minutes after RAISED; other
    fields by name."""
    raised = more.pop("raised", RAISED + timedelta(minutes=number))
    start = raised.replace(minute=raised.minute // 15 * 15, second=0) - WINDOW
    window = AlertWindow(_text(start), _text(start + WINDOW))
    fields: dict[str, Any] = {
        "alert_id": id_of(f"queue-too-long|1|{store}|none|{number}"),
        "rule_id": "queue-too-long",
        "rule_version": 1,
        "store_id": store,
        "subject": "none",
        "metric": "transactions",
        "window": window,
        "state": "provisional",
        "value": 8,
        "threshold": 6,
        "baseline": None,
        "severity": "warning",
        "raised_at": _text(raised),
        "reason": None,
        "edge": "raise",
        "of": None,
        "occurrence": 1,
        "supersedes": None,
        "late": False,
        "backfilled": False,
        "episode": EpisodeSpan(window.start, None),
        "evidence": Evidence(number, (ReadRows("sales", window.start[:10], None, 2, 37, "speed"),)),
    }
    return Alert(**{**fields, **more})


def then(alert: Alert, state: AlertState, **more: Any) -> Alert:
    """A later message of the same alert."""
    return msgspec.structs.replace(alert, state=state, **more)


def end_of(alert: Alert, number: int = 1, **more: Any) -> Alert:
    """The first message of an end of the raise: of several the one with this number."""
    ended = EpisodeSpan(alert.episode.start, alert.window.end)
    fields: dict[str, Any] = {
        "alert_id": id_of(f"{alert.alert_id}|clear|{number}"),
        "edge": "clear",
        "of": alert.alert_id,
        "episode": ended,
        "occurrence": number,
    }
    return then(alert, "provisional", **{**fields, **more})


def id_of(text: str) -> str:
    """An alert's id, as it is made of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def plain(alert: Alert) -> dict[str, Any]:
    """The message as a reader without our types has it."""
    found: dict[str, Any] = msgspec.json.decode(encode_alert(alert))
    return found


def send(settings: Settings, topic: str, alerts: Sequence[Alert], abort: bool = False) -> None:
    """Each alert in its store's partition, in one transaction; or all of it taken back."""
    with open_transaction(settings) as producer:
        for one in alerts:
            put(producer, settings, topic, one)
        assert producer.flush(30) == 0
        (producer.abort_transaction if abort else producer.commit_transaction)(30)


def put(producer: Any, settings: Settings, topic: str, alert: Alert) -> None:
    """The alert's record into the producer's open transaction."""
    number = partition_number(alert.store_id, settings.partitions)
    producer.produce(topic, encode_alert(alert), alert.store_id.encode(), partition=number)


@contextmanager
def open_transaction(settings: Settings) -> Iterator[Any]:
    """A producer whose transaction is open; the caller ends it."""
    producer = connected_producer(settings, {"transactional.id": f"test-{uuid4().hex}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    yield producer


def _text(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")
