"""Messages that are not about a single alert: summaries, daily digests and heartbeats.

A summary is one message for alerts that are too many at once or too old. Alerts of one channel,
region and rule are a group, which waits until no more alerts join it, and is sent once. The
summary's id is computed from the ids of its members, so no other group ever has it.

A digest has, by a store's clock, the decisions about its alerts since the previous digest: also
alerts that began and ended during a hold, and alerts beyond the rate limit. It is a function of the
decisions up to a tick, and is stored with them before it is sent. So it is the same after a crash.

The absence of a heartbeat shows that alerts may be missing too.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from itertools import accumulate, takewhile
from typing import Any, NamedTuple, TypeAlias, TypeVar
from zoneinfo import ZoneInfo

from msgspec import structs

from alerting.deliver.state.clock_times import start_instant
from alerting.deliver.state.controls import AlertChannel, severity_rank
from alerting.deliver.state.memory import MINUTE, DeliveryMemory
from alerting.deliver.state.records import (
    MAX_BYTES,
    DeliveryDecision,
    StoredDelivery,
    WebhookMessage,
    encode_body,
    hash_id,
    json_size,
)
from alerting.deliver.state.routing import DeliveryContext
from tally.time.instants import format_utc, from_millis, to_millis

# A group is sent after WAIT without a new member, and in any case after MAX_WAIT.
WAIT, MAX_WAIT = MINUTE, 10 * MINUTE
# The region of all stores.
EVERYWHERE = "*"
# Limits in bytes for the most severe alerts and the store names in the body of a summary.
_SEVERE_BYTES, _STORE_BYTES = MAX_BYTES // 2, MAX_BYTES // 3
# The most lines of a digest, of 600 bytes each: ids are bounded, and the subject is left out.
_MAX_LINES = MAX_BYTES // 600 - 1
HEARTBEAT_MILLIS = 5 * MINUTE
Listed = TypeVar("Listed")
# Channel, reason of the group, region and rule.
_GroupKey: TypeAlias = tuple[str, str, str, str]


class DigestSpan(NamedTuple):
    """The span of a local date's digest: `after` exclusive, `until` inclusive, in milliseconds."""

    day: date
    after: int
    until: int


@dataclass(frozen=True)
class OverviewMessages:
    """The messages of one partition that are not about a single alert, at the current tick."""

    memory: DeliveryMemory
    context: DeliveryContext
    partition: int

    def build_summaries(self) -> list[StoredDelivery]:
        """The messages of the groups that wait no longer, and their members, which name them."""
        memory = self.memory
        grouped: dict[_GroupKey, list[DeliveryDecision]] = defaultdict(list)
        for decision in memory.uncounted.values():
            alert = decision.alert
            region = next(iter(self.context.store(alert.store_id).regions), EVERYWHERE)
            grouped[decision.channel, decision.why, region, alert.rule_id].append(decision)
        changed: list[StoredDelivery] = []
        for key, members in sorted(grouped.items()):
            decided_at = [member.at for member in members]
            if memory.time.at >= min(max(decided_at) + WAIT, min(decided_at) + MAX_WAIT):
                summary = self._summarise(key, members)
                named = [structs.replace(member, message=summary.message_id) for member in members]
                changed += memory.remember_all([summary, *named])
        return changed

    def build_digests(self, before: int) -> list[StoredDelivery]:
        """The digests that have become due since the tick at the instant `before`.

        There is one for each channel, store and date with an alert; after days without ticks a
        single one covers all of them.
        """
        found: list[StoredDelivery] = []
        for channel in self.memory.channels.values():
            # Before the very first tick there are no earlier decisions.
            if channel.digest and channel.enabled and before:
                for number, digest in enumerate(self._list_digests(channel, before), 1):
                    found.append(structs.replace(digest, order=self.memory.order + number))
        return self.memory.remember_all(found)

    def build_heartbeats(self) -> list[StoredDelivery]:
        """A message to each channel with heartbeats enabled, five minutes after the previous one.

        If it does not arrive, alerts of this partition's stores may not arrive either. It replaces
        the previous heartbeat, whether that was sent or not.
        """
        memory, now = self.memory, format_utc(from_millis(self.memory.time.at))
        slot = memory.time.at // HEARTBEAT_MILLIS
        expires_at = (slot + 1) * HEARTBEAT_MILLIS
        found: list[StoredDelivery] = []
        for channel in memory.channels.values():
            name = channel.channel_id
            last = memory.messages.get(f"{name}|heartbeat")
            is_due = last is None or (last.expires_at or 0) < expires_at
            is_on = channel.heartbeat and channel.enabled and not memory.is_gone(name, channel.url)
            if is_on and is_due:
                beat = WebhookMessage(
                    channel=name,
                    message_id=hash_id("beat", name, str(self.partition), str(slot)),
                    kind="heartbeat",
                    url=channel.url,
                    body=encode_body("heartbeat", now, {"partition": self.partition}),
                    lanes=("heartbeat",),
                    order=memory.order,
                    due_at=memory.time.at,
                    expires_at=expires_at,
                )
                found.append(beat)
        return memory.remember_all(found)

    def _summarise(self, key: _GroupKey, members: Sequence[DeliveryDecision]) -> WebhookMessage:
        channel_id, why, region, rule_id = key
        memory, channel = self.memory, self.memory.channels[channel_id]
        instants = [member.alert.raised_at for member in members]
        origin = {"why": why, "region": region, "rule_id": rule_id, "partition": self.partition}
        numbers = {"from": min(instants), "to": max(instants), **_summary_numbers(members)}
        return WebhookMessage(
            channel=channel_id,
            # The id depends only on the members: two groups never have all of them in common.
            message_id=hash_id("grp", *sorted(member.key for member in members)),
            kind="summary",
            url=channel.url,
            body=encode_body("alerts.summary", max(instants), {**origin, **numbers}),
            lanes=(f"summary|{region}|{rule_id}",),
            order=memory.order + 1,
            due_at=memory.time.at,
            promise=channel.promise,
        )

    def _list_digests(self, channel: AlertChannel, before: int) -> Iterable[WebhookMessage]:
        memory, clock = self.memory, time.fromisoformat(channel.digest)
        # Spans are computed by zone, because a thousand stores have few zones.
        zones = {self.context.store(store_id).zone for store_id in memory.stores}
        spans_due = {zone: digest_span(clock, zone, before, memory.time.at) for zone in zones}
        due = {zone: span for zone, span in spans_due.items() if span}
        # Nearly every tick ends here, without a pass through the decisions of months.
        if not due:
            return
        by_store: dict[str, list[DeliveryDecision]] = defaultdict(list)
        spans: dict[str, DigestSpan] = {}
        for decision in memory.channel_decisions(channel.channel_id):
            store_id = decision.alert.store_id
            span = due.get(self.context.store(store_id).zone)
            if span is not None and span.after < decision.at <= span.until:
                by_store[store_id].append(decision)
                spans[store_id] = span
        for store_id, decisions in sorted(by_store.items()):
            yield self._build_digest(channel, spans[store_id], decisions)

    def _build_digest(
        self, channel: AlertChannel, span: DigestSpan, decisions: Sequence[DeliveryDecision]
    ) -> WebhookMessage:
        store_id, day = decisions[0].alert.store_id, span.day.isoformat()
        lines = _build_lines(decisions)
        shown, more = lines[:_MAX_LINES], max(0, len(lines) - _MAX_LINES)
        fields = {"store_id": store_id, "date": day, "alerts": shown, "more": more}
        return WebhookMessage(
            channel=channel.channel_id,
            message_id=hash_id("digest", channel.channel_id, store_id, day, "1"),
            kind="digest",
            url=channel.url,
            body=encode_body("alerts.digest", format_utc(from_millis(span.until)), fields),
            # In a lane of their own no alert waits for one, and yesterday's comes before today's.
            lanes=(f"digest {store_id}",),
            order=self.memory.order,
            due_at=self.memory.time.at,
            promise=channel.promise,
        )


def digest_span(clock: time, zone: ZoneInfo, before: int, now: int) -> DigestSpan | None:
    """The span of the digest that has become due after `before` and up to `now`; None for none.

    If several are due, the last one covers the days of the others too. A date that the zone skips
    has no digest.
    """
    first = from_millis(before).astimezone(zone).date()
    last = from_millis(now).astimezone(zone).date()
    # A clock can be a day off in a zone that skips a date.
    shifts = range(-3, (last - first).days + 2)
    days = (first + timedelta(days=shift) for shift in shifts)
    instants = ((start_instant(day, clock, zone), day) for day in days)
    due = {to_millis(instant): day for instant, day in instants if instant is not None}
    news = [at for at in due if before < at <= now]
    if not news:
        return None
    since = max((at for at in due if at <= before), default=before)
    return DigestSpan(due[max(news)], since, max(news))


def _summary_numbers(members: Sequence[DeliveryDecision]) -> dict[str, Any]:
    """The number of alerts, their stores, and the most severe of them."""
    alerts = [member.alert for member in members]
    ranked = sorted(alerts, key=lambda alert: (-severity_rank(alert.severity), alert.raised_at))
    # The stores of the most severe alerts come first, because a long list is cut.
    stores = [*dict.fromkeys(alert.store_id for alert in ranked)]
    shown = _take_fitting(stores, _STORE_BYTES)
    fields = ("alert_id", "store_id", "severity", "state", "raised_at")
    lines = [{name: getattr(alert, name) for name in fields} for alert in ranked]
    return {
        "alerts": len(alerts),
        "severities": dict(sorted(Counter(alert.severity for alert in alerts).items())),
        "most_severe": _take_fitting(lines, _SEVERE_BYTES),
        "stores": shown,
        "more_stores": len(stores) - len(shown),
        "link": "/v1/alerts",
    }


def _take_fitting(listed: Sequence[Listed], most_bytes: int) -> list[Listed]:
    """The first values that together fit into `most_bytes` bytes of JSON."""
    sizes = accumulate(json_size(value) + 1 for value in listed)
    fitting = takewhile(lambda size: size <= most_bytes, sizes)
    return [value for value, _ in zip(listed, fitting, strict=False)]


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
