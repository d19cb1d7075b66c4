"""The decision about an alert at its first state, which its later states follow.

It is made once, and stored before any call. So after a crash, or after a silence has begun, the
record shows which channels may have received a raise.
"""

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo

from msgspec import Struct

from alerting.deliver.state.clock_times import QuietHours, parse_quiet_spans, quiet_until
from alerting.deliver.state.controls import AlertChannel, selects, severity_rank
from alerting.deliver.state.records import DeliveryDecision, DeliveryReason, DeliveryVerdict
from tally.alerts.message import Alert
from tally.time.instants import from_millis, parse_instant, to_millis


class StoreFacts(NamedTuple):
    """The facts about a store that deliveries need; `regions`: the groups that it belongs to."""

    zone: ZoneInfo
    regions: tuple[str, ...]


class DeliveryContext(Protocol):
    """The source of the facts about rules and stores that deliveries need."""

    def rule_channels(self, rule_id: str, version: int) -> Collection[str]:
        """The channels that a rule version names; none for an unknown one."""

    def store(self, store_id: str) -> StoreFacts:
        """The facts about a store."""


class FirstState(Struct, frozen=True, kw_only=True):
    """The first state of an alert on a channel, and all facts for the decision.

    `raise_verdict`: for an end, the verdict on its raise on this channel, None without one;
    `hold_reason`: the reason that holds the alert back now; `sent_count`: the number of raises, at
    least as severe, that were sent one by one in this minute.
    """

    alert: Alert
    channel: AlertChannel
    now: int
    hold_reason: DeliveryReason
    raise_verdict: DeliveryVerdict | None
    sent_count: int


def matches_channel(alert: Alert, channel: AlertChannel, named: Collection[str]) -> bool:
    """Whether the channel takes alerts like this one; `named`: the channels of its rule."""
    is_named = channel.channel_id in named or selects(channel.rules, alert.rule_id)
    return (
        channel.enabled
        and is_named
        and selects(channel.stores, alert.store_id)
        # An unknown severity ranks highest, so that it is never filtered out.
        and severity_rank(alert.severity) >= severity_rank(channel.least_severity)
    )


# All held alerts of a tick share few distinct results, one for each channel and zone.
@lru_cache(1_000)
def quiet_end(hours: tuple[QuietHours, ...], now: int, zone: ZoneInfo) -> int | None:
    """The end of a channel's quiet hours for a store of the zone; None outside of them."""
    if not hours:
        return None
    ends = quiet_until(from_millis(now), parse_quiet_spans(hours), zone)
    return to_millis(ends) if ends is not None else None


def combine_verdicts(decisions: Sequence[DeliveryDecision]) -> DeliveryVerdict | None:
    """The verdict on an alert on a channel, from the decisions about its states.

    "send" is strongest, because the channel may have the alert once any of its states was sent.
    """
    verdicts = {decision.verdict for decision in decisions}
    by_strength: tuple[DeliveryVerdict, ...] = ("send", "held", "suppressed")
    return next((verdict for verdict in by_strength if verdict in verdicts), None)


class DeliveryRules:
    """The rules of delivery; tests replace them with rules that are wrong on purpose."""

    def lane(self, alert: Alert) -> str:
        """The lane of an alert, one for each episode; messages of a lane wait for each other."""
        return alert.of or alert.alert_id

    def needs(self, alert: Alert) -> tuple[str, ...]:
        """The alerts that must have arrived before, as something to end or to retract."""
        if alert.state == "retracted":
            return (alert.alert_id,)
        return (alert.of,) if alert.of else ()

    def decide_first(self, first_state: FirstState) -> tuple[DeliveryVerdict, DeliveryReason]:
        """Whether an alert is sent, and the reason if it is not."""
        # The verdict on an end's raise is more important than its age or the rate of alerts.
        if first_state.alert.edge == "clear":
            return self.decide_end(first_state)
        if first_state.alert.backfilled:
            return "suppressed", "backfilled"
        # Age is checked before the holds, because an old alert is even older after them.
        if is_old(first_state.alert, first_state.channel, first_state.now):
            return "suppressed", "late"
        if first_state.hold_reason:
            return "held", first_state.hold_reason
        if first_state.sent_count >= first_state.channel.most_a_minute:
            return "suppressed", "storm"
        return "send", ""

    def decide_end(self, first_state: FirstState) -> tuple[DeliveryVerdict, DeliveryReason]:
        """Whether an end is sent, which depends on its raise.

        A channel with the raise gets the end at any age and rate, or an incident would stay open
        for ever.
        """
        if first_state.raise_verdict == "send":
            return ("held", first_state.hold_reason) if first_state.hold_reason else ("send", "")
        return ("held" if first_state.raise_verdict == "held" else "suppressed"), "raise not sent"

    def decide_later(
        self, earlier: Sequence[DeliveryDecision], reason: DeliveryReason
    ) -> DeliveryVerdict:
        """The verdict on a further state: the alert's earlier verdict, despite current holds."""
        # `reason` is ignored, because a silenced retraction would leave a false alert behind.
        return combine_verdicts(earlier) or "suppressed"


def is_old(alert: Alert, channel: AlertChannel, now: int) -> bool:
    """Whether an alert has passed the channel's `max_age` at an instant (ms since 1970, UTC)."""
    oldest = now - channel.max_age * 1_000
    # After days without a dispatcher, an alert that was published in time is old as well.
    if instant_millis(alert.raised_at) < oldest:
        return True
    return alert.late and instant_millis(alert.window.end) < oldest


# Each tick reads the same instants of all held alerts.
@lru_cache(100_000)
def instant_millis(text: str) -> int:
    """The instant in an alert's text, in milliseconds since 1970. Raises BadInstant."""
    return to_millis(parse_instant(text, "alert"))
