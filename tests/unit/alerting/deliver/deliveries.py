"""Alerts, channels and an engine for the tests of deliveries."""

from collections.abc import Iterable
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from msgspec import structs

from alerting.deliver.engine import DeliveryEngine
from alerting.deliver.state.controls import AlertChannel
from alerting.deliver.state.records import DeliveryChange, DeliveryDecision, WebhookMessage
from alerting.deliver.state.routing import DeliveryRules, StoreFacts
from runtime.outbound.engine import TickTime
from tally.alerts.message import Alert, AlertWindow, EpisodeSpan, Evidence, ReadRows
from tally.time.instants import format_utc, from_millis

# A Thursday of now, 13:00 in Rome.
NOON = 1_795_694_400_000
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
URL = "https://tablet.example/alerts"
One = TypeVar("One")


def alert(number: int = 1, at: int = NOON, **changed: Any) -> Alert:
    """A raise of this number, told at an instant; `changed` fields by name."""
    instant = format_utc(from_millis(at))
    whole = Alert(
        # Of its id a message's key has the first 40 digits.
        alert_id=f"{number:040x}{0:024x}",
        rule_id="queue-too-long",
        rule_version=1,
        store_id="367",
        subject="device:q-2",
        metric="queue_length_max",
        window=AlertWindow(instant, instant),
        state="provisional",
        value=8.0,
        threshold=6.0,
        baseline=None,
        severity="warning",
        raised_at=instant,
        reason=None,
        edge="raise",
        of=None,
        occurrence=1,
        supersedes=None,
        late=False,
        backfilled=False,
        episode=EpisodeSpan(instant, None),
        evidence=Evidence(1, (ReadRows("queues", instant[:10], 4, 1, 37, "batch"),)),
    )
    return structs.replace(whole, **changed)


def end_of(raised: Alert, number: int, **changed: Any) -> Alert:
    """The end of a raise."""
    return alert(number, edge="clear", of=raised.alert_id, **changed)


def channel(channel_id: str = "floor", **changed: Any) -> AlertChannel:
    """A channel that every rule's alerts go to."""
    whole = AlertChannel(channel_id=channel_id, url=URL, secrets=("floor",), rules="all")
    return structs.replace(whole, **changed)


class Town:
    """Rules that name no channel, and stores of one region."""

    def __init__(self, zone: str = "Europe/Rome") -> None:
        self.zone = zone

    def rule_channels(self, _rule_id: str, _version: int) -> tuple[str, ...]:
        return ()

    def store(self, _store_id: str) -> StoreFacts:
        return StoreFacts(ZoneInfo(self.zone), ("west",))


def engine_with(
    *channels: AlertChannel, town: Town | None = None, at: int = NOON
) -> DeliveryEngine:
    """An engine at an instant, with these channels or one of `channel()`."""
    engine = DeliveryEngine(DeliveryRules(), town or Town())
    for one in channels or (channel(),):
        engine.apply_control(one)
    engine.advance_time(TickTime(n=1, at=at))
    return engine


def later(engine: DeliveryEngine, millis: int) -> list[DeliveryChange]:
    """What a tick so much later brings about."""
    time = engine.memory.time
    return engine.advance_time(TickTime(n=time.n + 1, at=time.at + millis))


def of_kind(kind: type[One], kept: Iterable[Any]) -> list[One]:
    """The records of a type."""
    return [one for one in kept if isinstance(one, kind)]


def messages(kept: Iterable[DeliveryChange]) -> list[WebhookMessage]:
    """The messages among records."""
    return of_kind(WebhookMessage, kept)


def decisions(kept: Iterable[DeliveryChange]) -> list[tuple[str, str]]:
    """What was decided, and why."""
    return [(one.verdict, one.why) for one in of_kind(DeliveryDecision, kept)]
