"""What is decided about an alert when its first state is taken, and what its later states follow.

Decided once, and stored before anything is called: whoever comes after a crash, or after a silence
has begun, knows from the record who may have heard of a raise.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo

from msgspec import Struct

from tally.alerts.delivery.clock_times import quiet_spans, quiet_until
from tally.alerts.delivery.controls import (
    AlertChannel,
    Silence,
    Snooze,
    holds_for,
    severity_rank,
)
from tally.alerts.delivery.records import DeliveryDecision, DeliveryReason, DeliveryVerdict
from tally.alerts.message import Alert
from tally.alerts.rule import ClockHours
from tally.instants import from_millis, parse_instant

_MILLIS = 1_000


class RuleFacts(NamedTuple):
    """What deliveries have to know of a rule: its kind, and the channels that it names."""

    kind: str
    channels: tuple[str, ...]


class StoreFacts(NamedTuple):
    """What deliveries have to know of a store; `regions`: the groups that it is of."""

    zone: ZoneInfo
    regions: tuple[str, ...]


class Surroundings(Protocol):
    """What rules and stores are like, as far as deliveries go by it."""

    def rule(self, rule_id: str, version: int) -> RuleFacts:
        """Of a rule; of one that is not known any more its kind is "" and it names nobody."""

    def store(self, store_id: str) -> StoreFacts:
        """Of a store."""

    def peers(self, family: str, region: str, partitions: Collection[int]) -> int:
        """How many stores of these partitions and of the region send anything of the family.

        EVERYWHERE (groups.py) is a region too; 0 while nobody can say.
        """

    def judged(self, partitions: Collection[int]) -> int:
        """Up to which instant the evaluators have judged all ticks of these partitions.

        Milliseconds since 1970 (UTC); 0 while nobody can say.
        """


class Holds(NamedTuple):
    """What keeps alerts back now; snoozes by alert."""

    silences: Collection[Silence]
    snoozes: Mapping[str, Snooze]


class FirstState(Struct, frozen=True, kw_only=True):
    """The first state of an alert on a channel, and all by which is decided.

    `raised`: for an end what became of its raise here, None where nothing was decided; `held`: what
    holds it back now; `sent`: raises, at least as severe, that have gone out one by one in this
    minute.
    """

    alert: Alert
    channel: AlertChannel
    now: int
    held: DeliveryReason
    raised: DeliveryVerdict | None
    sent: int
    is_silence: bool


def routed(alert: Alert, channel: AlertChannel, facts: RuleFacts) -> bool:
    """Whether alerts like this one go to the channel."""
    is_named = channel.channel_id in facts.channels or holds_for(channel.rules, alert.rule_id)
    return (
        channel.enabled
        and is_named
        and holds_for(channel.stores, alert.store_id)
        # A severity that is not known yet is no reason to be silent.
        and severity_rank(alert.severity) >= severity_rank(channel.least_severity)
    )


def holding(
    alert: Alert, channel: AlertChannel, holds: Holds, at: tuple[int, ZoneInfo]
) -> DeliveryReason:
    """What keeps the alert back at an instant, by the clock of its store's zone; "" for nothing."""
    now, _zone = at
    for one in holds.silences:
        is_meant = holds_for(one.rules, alert.rule_id) and holds_for(one.stores, alert.store_id)
        if is_meant and one.starts <= now < one.ends:
            return one.kind
    # Who has snoozed a raise does not want its end either.
    episode = (alert.alert_id, alert.of or alert.alert_id)
    snoozed = (holds.snoozes.get(one) for one in episode)
    if any(one is not None and now < one.until for one in snoozed):
        return "snooze"
    return "quiet" if quiet_end(channel, at) is not None else ""


def quiet_end(channel: AlertChannel, at: tuple[int, ZoneInfo]) -> int | None:
    """When the channel's quiet hours end for a store of the zone; None outside of them."""
    return _quiet_end(channel.quiet, *at) if channel.quiet else None


# Of all that is held at a tick the answers are few: by channel and zone.
@lru_cache(1_000)
def _quiet_end(hours: tuple[ClockHours, ...], now: int, zone: ZoneInfo) -> int | None:
    ends = quiet_until(from_millis(now), quiet_spans(hours), zone)
    return int(ends.timestamp() * _MILLIS) if ends is not None else None


def plan(told: Sequence[DeliveryDecision]) -> DeliveryVerdict | None:
    """What was decided about an alert on a channel, by the decisions about its states.

    Once one of them is to be sent, somebody may have it.
    """
    verdicts = {one.verdict for one in told}
    of_strength: tuple[DeliveryVerdict, ...] = ("send", "held", "suppressed")
    return next((one for one in of_strength if one in verdicts), None)


class DeliveryRules:
    """The rules by which is decided; another one in its place is wrong on purpose."""

    def lane(self, alert: Alert) -> str:
        """Messages of one lane wait for each other: all that is told of one episode."""
        return alert.of or alert.alert_id

    def needs(self, alert: Alert) -> tuple[str, ...]:
        """Alerts of which something must have arrived, or there is nothing to end or take back."""
        if alert.state == "retracted":
            return (alert.alert_id,)
        return (alert.of,) if alert.of else ()

    def first(self, asked: FirstState) -> tuple[DeliveryVerdict, DeliveryReason]:
        """Whether an alert goes out, and why not."""
        # What became of its raise counts for more than its age, or how many there are.
        if asked.alert.edge == "clear":
            return self.first_of_end(asked)
        if asked.alert.backfilled:
            return "suppressed", "backfilled"
        # Before the holds: what is old now is older when they are over.
        if is_old(asked.alert, asked.channel, asked.now):
            return "suppressed", "late"
        # Before any other hold: while one holds, nobody would count how many stores are silent. A
        # generation has said the others, whoever else is silent.
        if asked.is_silence and asked.alert.state == "provisional":
            return "held", "many silent"
        if asked.held:
            return "held", asked.held
        if asked.sent >= asked.channel.most_a_minute:
            return "suppressed", "storm"
        return "send", ""

    def first_of_end(self, asked: FirstState) -> tuple[DeliveryVerdict, DeliveryReason]:
        """Whether an end goes out: none without its raise.

        Who has the raise gets the end, however old and however many: else an incident would stay
        open for ever.
        """
        if asked.raised == "send":
            return ("held", asked.held) if asked.held else ("send", "")
        return ("held" if asked.raised == "held" else "suppressed"), "raise not sent"

    def later(self, told: Sequence[DeliveryDecision], held: DeliveryReason) -> DeliveryVerdict:
        """What becomes of a further state: as was decided about the alert, whatever holds now."""
        # `held` is not looked at: a retraction that a silence swallows leaves a false alert behind.
        return plan(told) or "suppressed"


def is_old(alert: Alert, channel: AlertChannel, now: int) -> bool:
    """Whether an alert has passed the channel's `max_age` at an instant (ms since 1970, UTC)."""
    oldest = now - channel.max_age * _MILLIS
    # After days without a dispatcher what was told in time is old as well.
    if millis_of(alert.raised_at) < oldest:
        return True
    return alert.late and millis_of(alert.window.end) < oldest


# Each tick asks for the same instants of all that is held.
@lru_cache(100_000)
def millis_of(text: str) -> int:
    """An instant of an alert in milliseconds since 1970. Raises BadInstant."""
    return round(parse_instant(text, "alert").timestamp() * _MILLIS)
