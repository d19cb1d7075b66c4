"""Once a day, by the clock of a store: what was decided about its alerts since the last time.

What began and ended while nobody was to be told is told here, and so is what was too much. It is a
function of what was decided up to a tick, and is stored with that before anybody has it: as a call,
or as a file, it is the same whoever makes it after a crash.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, NamedTuple
from urllib.parse import quote
from zoneinfo import ZoneInfo

from tally.alerts.delivery.body import MOST_BYTES, body_text, hashed_id
from tally.alerts.delivery.clock_times import start_instant
from tally.alerts.delivery.controls import AlertChannel, severity_rank
from tally.alerts.delivery.deciding import Surroundings
from tally.alerts.delivery.memory import DeliveryMemory
from tally.alerts.delivery.records import (
    FILE,
    DeliveryDecision,
    KeptDelivery,
    WebhookMessage,
)
from tally.instants import from_millis, instant_text

_MILLIS = 1_000
# Of a line of a digest no more than this many bytes: ids are bounded, the subject is left out.
_LINE_BYTES = 600
# Of the 255 bytes of a file's name.
_MOST_NAME = 200
_MOST_LINES = MOST_BYTES // _LINE_BYTES - 1


class DigestSpan(NamedTuple):
    """What the digest of a local date is about: from exclusive, to inclusive, in milliseconds."""

    day: date
    after: int
    until: int


def digests(memory: DeliveryMemory, around: Surroundings, before: int) -> list[KeptDelivery]:
    """The digests that have become due between two ticks; `before`: the instant of the earlier one.

    One a channel, store and date, none without an alert; after days without ticks one for all.
    """
    found: list[KeptDelivery] = []
    for channel in memory.channels.values():
        # Before the first tick of all there was no day.
        if channel.digest and channel.enabled and before:
            found += _of_channel(channel, memory, around, before)
    return found


def digest_span(clock: time, zone: ZoneInfo, before: int, now: int) -> DigestSpan | None:
    """Which digest has become due after `before` and up to `now`; None for none.

    Of several the last, which is about the days of the others too. A date that the zone has left
    out has none.
    """
    today = from_millis(now).astimezone(zone).date()
    # A clock can be a day off, where a zone has left one out.
    for shift in range(1, -3, -1):
        instant = _millis(start_instant(today + timedelta(days=shift), clock, zone))
        if instant is not None and before < instant <= now:
            day = today + timedelta(days=shift)
            return DigestSpan(day, _last_before(day, clock, zone, before), instant)
    return None


def _last_before(day: date, clock: time, zone: ZoneInfo, before: int) -> int:
    """The instant of the last digest that was due by `before`, seen from a later date."""
    back = day - from_millis(before).astimezone(zone).date()
    for more in range(back.days - 2, back.days + 4):
        instant = _millis(start_instant(day - timedelta(days=more), clock, zone))
        if more > 0 and instant is not None and instant <= before:
            return instant
    return before


def _of_channel(
    channel: AlertChannel, memory: DeliveryMemory, around: Surroundings, before: int
) -> Iterable[WebhookMessage]:
    clock, now = time.fromisoformat(channel.digest), memory.time.at
    # By zone and not by store: a thousand stores have a few zones.
    zones = {around.store(store_id).zone for store_id in memory.stores}
    spans_due = {zone: digest_span(clock, zone, before, now) for zone in zones}
    due = {zone: span for zone, span in spans_due.items() if span}
    # At nearly every tick: what was decided in months is not gone through each time.
    if not due:
        return
    by_store: dict[str, list[DeliveryDecision]] = defaultdict(list)
    spans: dict[str, DigestSpan] = {}
    for decision in memory.decisions(channel.channel_id):
        store_id = decision.alert.store_id
        span = due.get(around.store(store_id).zone)
        if span is not None and span.after < decision.at <= span.until:
            by_store[store_id].append(decision)
            spans[store_id] = span
    for number, (store_id, decisions) in enumerate(sorted(by_store.items()), 1):
        yield _digest(channel, memory, spans[store_id], decisions, number)


def _digest(
    channel: AlertChannel,
    memory: DeliveryMemory,
    span: DigestSpan,
    decisions: Sequence[DeliveryDecision],
    number: int,
) -> WebhookMessage:
    store_id, day = decisions[0].alert.store_id, span.day.isoformat()
    lines = _lines(decisions)
    told = {
        "store_id": store_id,
        "date": day,
        "alerts": lines[:_MOST_LINES],
        "more": max(0, len(lines) - _MOST_LINES),
    }
    due = instant_text(from_millis(span.until))
    is_file = channel.digest_as == "file"
    return WebhookMessage(
        channel=channel.channel_id,
        message_id=hashed_id("digest", channel.channel_id, store_id, day, "1"),
        kind="digest",
        url=FILE + file_name(channel.channel_id, store_id, day) if is_file else channel.url,
        body=body_text("alerts.digest", due, told),
        # No alert waits for a digest, and yesterday's comes before today's.
        lanes=(f"digest {store_id}",),
        order=memory.order + number,
        due_at=memory.time.at,
        # A file that is written again is the same file: there is no reason to give one up.
        promise="at_least_once" if is_file else channel.promise,
    )


def file_name(channel_id: str, store_id: str, day: str) -> str:
    """The name of a digest's file below the folder of digests: by channel, date and store.

    >>> file_name("office", "367", "2026-11-27")
    'office/2026-11-27_367.json'
    """
    # Whatever a store is called, it names no other folder, and no file that is too long.
    store = quote(store_id, safe="")
    if len(store) > _MOST_NAME:
        store = hashed_id("store", store_id)
    return f"{channel_id}/{day}_{store}.json"


def _lines(decisions: Sequence[DeliveryDecision]) -> list[Mapping[str, Any]]:
    """One line for each alert, its end in the same one: the most severe first, then by time."""
    episodes: dict[str, list[DeliveryDecision]] = defaultdict(list)
    for decision in decisions:
        episodes[decision.alert.of or decision.alert.alert_id].append(decision)
    lines = [_line(episode) for episode in episodes.values()]
    lines.sort(key=lambda line: str(line["raised_at"]))
    return sorted(lines, key=lambda line: -severity_rank(line["severity"]))


def _line(episode: Sequence[DeliveryDecision]) -> Mapping[str, Any]:
    # By what was decided first is said whether it was told, and by the newest how it stands.
    first = min(episode, key=lambda decision: decision.alert.of is not None)
    ends = [decision for decision in episode if decision.alert.of is not None]
    last = (ends or episode)[-1]
    return {
        "alert_id": first.alert.alert_id,
        "rule_id": first.alert.rule_id,
        "edge": last.alert.edge,
        "state": last.alert.state,
        "raised_at": first.alert.raised_at,
        "severity": first.alert.severity,
        "told": first.verdict,
        "why": first.why,
    }


def _millis(instant: datetime | None) -> int | None:
    return None if instant is None else int(instant.timestamp() * _MILLIS)
