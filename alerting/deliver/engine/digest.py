"""Daily digests by a store's clock: the decisions about its alerts since the previous digest.

A digest includes alerts that began and ended during a hold, and alerts beyond the rate limit. It is
a function of the decisions up to a tick, and is stored with them before it is sent. So it is the
same after a crash.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, time, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from alerting.deliver.state.body import MAX_BYTES, encode_body, hash_id
from alerting.deliver.state.clock_times import start_instant
from alerting.deliver.state.controls import AlertChannel, severity_rank
from alerting.deliver.state.memory import DeliveryMemory
from alerting.deliver.state.records import DeliveryDecision, StoredDelivery, WebhookMessage
from alerting.deliver.state.routing import DeliveryContext
from tally.time.instants import format_utc, from_millis, to_millis

# The most bytes of a digest's line: ids are bounded, and the subject is left out.
_LINE_BYTES = 600
_MAX_LINES = MAX_BYTES // _LINE_BYTES - 1


class DigestSpan(NamedTuple):
    """The span of a local date's digest: `after` exclusive, `until` inclusive, in milliseconds."""

    day: date
    after: int
    until: int


def build_digests(
    memory: DeliveryMemory, around: DeliveryContext, before: int
) -> list[StoredDelivery]:
    """The digests that have become due between two ticks.

    `before`: the instant of the earlier tick. There is one digest for each channel, store and date
    with an alert; after days without ticks a single one covers all of them.
    """
    found: list[StoredDelivery] = []
    for channel in memory.channels.values():
        # Before the very first tick there are no earlier decisions.
        if channel.digest and channel.enabled and before:
            found += _build_channel_digests(channel, memory, around, before)
    return found


def digest_span(clock: time, zone: ZoneInfo, before: int, now: int) -> DigestSpan | None:
    """The span of the digest that has become due after `before` and up to `now`; None for none.

    If several are due, the last one covers the days of the others too. A date that the zone skips
    has no digest.
    """
    first = from_millis(before).astimezone(zone).date()
    last = from_millis(now).astimezone(zone).date()
    # A clock can be a day off in a zone that skips a date.
    shifts = range(-3, (last - first).days + 2)
    due: dict[int, date] = {}
    for day in (first + timedelta(days=shift) for shift in shifts):
        instant = start_instant(day, clock, zone)
        if instant is not None:
            due[to_millis(instant)] = day
    news = [at for at in due if before < at <= now]
    if not news:
        return None
    since = max((at for at in due if at <= before), default=before)
    return DigestSpan(due[max(news)], since, max(news))


def _build_channel_digests(
    channel: AlertChannel, memory: DeliveryMemory, around: DeliveryContext, before: int
) -> Iterable[WebhookMessage]:
    clock, now = time.fromisoformat(channel.digest), memory.time.at
    # Spans are computed by zone, because a thousand stores have few zones.
    zones = {around.store(store_id).zone for store_id in memory.stores}
    spans_due = {zone: digest_span(clock, zone, before, now) for zone in zones}
    due = {zone: span for zone, span in spans_due.items() if span}
    # Nearly every tick ends here, without a pass through the decisions of months.
    if not due:
        return
    by_store: dict[str, list[DeliveryDecision]] = defaultdict(list)
    spans: dict[str, DigestSpan] = {}
    for decision in memory.channel_decisions(channel.channel_id):
        store_id = decision.alert.store_id
        span = due.get(around.store(store_id).zone)
        if span is not None and span.after < decision.at <= span.until:
            by_store[store_id].append(decision)
            spans[store_id] = span
    for number, (store_id, decisions) in enumerate(sorted(by_store.items()), 1):
        yield _build_digest(channel, memory, spans[store_id], decisions, number)


def _build_digest(
    channel: AlertChannel,
    memory: DeliveryMemory,
    span: DigestSpan,
    decisions: Sequence[DeliveryDecision],
    number: int,
) -> WebhookMessage:
    store_id, day = decisions[0].alert.store_id, span.day.isoformat()
    lines = _build_lines(decisions)
    fields = {
        "store_id": store_id,
        "date": day,
        "alerts": lines[:_MAX_LINES],
        "more": max(0, len(lines) - _MAX_LINES),
    }
    due = format_utc(from_millis(span.until))
    return WebhookMessage(
        channel=channel.channel_id,
        message_id=hash_id("digest", channel.channel_id, store_id, day, "1"),
        kind="digest",
        url=channel.url,
        body=encode_body("alerts.digest", due, fields),
        # Digests have their own lane: no alert waits for one, and yesterday's comes before today's.
        lanes=(f"digest {store_id}",),
        order=memory.order + number,
        due_at=memory.time.at,
        promise=channel.promise,
    )


def _build_lines(decisions: Sequence[DeliveryDecision]) -> list[Mapping[str, Any]]:
    """The lines of a digest, one for each alert with its end: most severe first, then by time."""
    episodes: dict[str, list[DeliveryDecision]] = defaultdict(list)
    for decision in decisions:
        episodes[decision.alert.of or decision.alert.alert_id].append(decision)
    lines = [_build_line(episode) for episode in episodes.values()]
    lines.sort(key=lambda line: str(line["raised_at"]))
    return sorted(lines, key=lambda line: -severity_rank(line["severity"]))


def _build_line(episode: Sequence[DeliveryDecision]) -> Mapping[str, Any]:
    # The first decision says whether the alert was sent, and the newest its current state.
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
        "verdict": first.verdict,
        "why": first.why,
    }
